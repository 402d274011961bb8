"""`weights.engine`: the chosen one, or the one that measured fastest for such files."""

import pytest

from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.errors import Unresolvable
from lmi_deploy.weights.uploader_selection import choose_uploader


def files(count: int, size: int) -> list[FileEntry]:
    return [FileEntry(path=f"{size}-{n}", size=size, oid="0" * 64, kind="sha256") for n in range(count)]


LARGE, MANY, FEW = files(4, 1 << 30), files(2000, 128 << 10), files(6, 2000)
BOTH = ("s5cmd", "obstore")


@pytest.mark.parametrize(
    ("chosen", "is_local", "present", "engine"),
    [
        (LARGE + FEW, True, BOTH, "own"),
        (MANY, True, BOTH, "obstore"),
        (MANY, True, ("s5cmd",), "own"),
        (MANY, False, BOTH, "own"),
        (LARGE * 60 + MANY, True, BOTH, "own"),
    ],
    ids=["large", "many small", "not installed", "streamed", "mixed"],
)
def test_engine_auto_follows_number_and_place_of_the_files(
    chosen: list[FileEntry], is_local: bool, present: tuple[str, ...], engine: str
) -> None:
    found = choose_uploader("auto", chosen, is_local=is_local, present=present)
    assert found.engine == engine
    assert choose_uploader(None, chosen, is_local=is_local, present=present) == found
    assert bool(found.why) == (engine != "own")


def test_chosen_engine_is_used() -> None:
    assert choose_uploader("obstore", LARGE, is_local=True, present=()).engine == "obstore"
    assert choose_uploader("own", MANY, is_local=True, present=BOTH).engine == "own"


def test_external_engine_needs_local_files() -> None:
    with pytest.raises(Unresolvable, match="obstore sends files from the disk") as error:
        choose_uploader("obstore", MANY, is_local=False, present=BOTH)
    assert "snapshot" in error.value.hint
