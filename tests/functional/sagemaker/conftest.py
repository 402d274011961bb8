from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.cloud_app import CloudApp, write_recipe


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudApp]:
    """A folder with one recipe for SageMaker, `tiny.yaml`, and an account with nothing in it."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        monkeypatch.chdir(folder)
        write_recipe()
        yield CloudApp(Path(folder))
