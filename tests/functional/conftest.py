from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.house import RECIPE, House


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """A folder with one recipe, `tiny.yaml`, and nothing deployed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(RECIPE)
    house = House(tmp_path)
    yield house
    house.servers.close()
