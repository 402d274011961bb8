"""`pytest tests/golden --bless` takes today's output as the expected one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

EXPECTED = Path(__file__).parent / "expected"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write the golden files again")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, dict[str, bytes]], None]:
    """Compares a whole folder of files with the expected one: no file more, no file less, no byte different."""

    def compare(folder: str, files: dict[str, bytes]) -> None:
        place = EXPECTED / folder
        if request.config.getoption("--bless", default=False):
            _write(place, files)
        have = {path.name: path.read_bytes() for path in place.iterdir()} if place.is_dir() else {}
        assert sorted(have) == sorted(files), "`make bless` writes them again"
        for name, content in files.items():
            assert content.decode() == have[name].decode(), f"{folder}/{name}: `make bless` writes it again"

    return compare


def _write(place: Path, files: dict[str, bytes]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for path in place.iterdir():
        path.unlink()
    for name, content in files.items():
        (place / name).write_bytes(content)
