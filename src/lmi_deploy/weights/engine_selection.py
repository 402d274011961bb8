"""Who carries weights into the bucket: ourselves, or an outside engine where that was measured to be faster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple

from lmi_deploy.domain.facts import FileEntry
from lmi_deploy.errors import Unresolvable

OWN: Final = "own"
_MANY: Final = 200
_SMALL: Final = 1 << 20
"""Below so many bytes a file costs more for its request than for its bytes: there a program that is no Python is
faster. Above it ours is, of any size (`python -m benchmarks transfer`)."""

Wish = Literal["auto", "own", "s5cmd", "obstore"]


class Carrying(NamedTuple):
    """`why` is empty where the recipe said it."""

    engine: str
    why: str = ""


def choose_carrier(
    wish: Wish | None, files: Sequence[FileEntry], *, here: bool, present: Collection[str]
) -> Carrying:
    """`here`: the files lie on this machine. `present`: outside engines that are installed."""
    if wish in (None, "auto"):
        return _fastest(files, present) if here else Carrying(OWN)
    if wish != OWN and not here:
        raise Unresolvable(
            f"weights.engine: {wish} sends files of this machine, and these are streamed past it",
            hint="add weights.via: snapshot, which fetches them here first; or leave the engine out",
        )
    return Carrying(str(wish))


def _fastest(files: Sequence[FileEntry], present: Collection[str]) -> Carrying:
    small = [entry for entry in files if entry.size < _SMALL]
    if "obstore" in present and len(small) >= _MANY and len(small) > len(files) * 0.9:
        return Carrying("obstore", f"auto: {len(small)} of {len(files)} files are smaller than 1 MiB")
    return Carrying(OWN)
