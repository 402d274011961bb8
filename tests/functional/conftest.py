from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fake_servers import Behaviour, FakeResponse, chat
from tests.support.local_app import RECIPE, LocalApp, folder_in_memory


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalApp]:
    """A folder with one recipe, `tiny.yaml`, and nothing deployed."""
    with folder_in_memory() as folder:
        monkeypatch.chdir(folder)
        Path("tiny.yaml").write_text(RECIPE)
        app = LocalApp(Path(folder))
        yield app
        app.servers.close()


@pytest.fixture
def broken(app: LocalApp) -> None:
    """Every server fails to load its model."""
    app.servers.next.extend([Behaviour(end="failed")] * 10)


@pytest.fixture
def answering(app: LocalApp) -> list[FakeResponse]:
    """Every server gives the responses in this list; the default response while it is empty."""
    given: list[FakeResponse] = []
    behaviour = Behaviour(answer=lambda body: given[0] if given else chat(body))
    app.servers.next.extend([behaviour] * 10)
    return given
