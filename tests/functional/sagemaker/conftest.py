from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cloud_app import CloudApp, write_recipe
from tests.support.crash_scenarios import CrashApp
from tests.support.crash_scenarios import crash_app as new_crash_app
from tests.support.local_app import folder_in_memory


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudApp]:
    """A folder with one recipe for SageMaker, `tiny.yaml`, and an account with nothing in it."""
    with folder_in_memory() as folder:
        monkeypatch.chdir(folder)
        write_recipe()
        yield CloudApp(Path(folder))


@pytest.fixture
def crash_app() -> Iterator[CrashApp]:
    with new_crash_app() as app:
        yield app
