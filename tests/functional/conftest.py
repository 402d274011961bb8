from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.fake_servers import Answer, Behaviour, chat
from tests.support.local_app import RECIPE, House


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """A folder with one recipe, `tiny.yaml`, and nothing deployed.

    In memory where there is such a place: a record is synced to disk twice an action."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        monkeypatch.chdir(folder)
        Path("tiny.yaml").write_text(RECIPE)
        house = House(Path(folder))
        yield house
        house.servers.close()


@pytest.fixture
def broken(house: House) -> None:
    """Every server fails to load its model."""
    house.servers.next.extend([Behaviour(end="failed")] * 10)


@pytest.fixture
def answering(house: House) -> list[Answer]:
    """Put an answer in, and every server gives it; empty, they answer as ever."""
    given: list[Answer] = []
    behaviour = Behaviour(answer=lambda body: given[0] if given else chat(body))
    house.servers.next.extend([behaviour] * 10)
    return given
