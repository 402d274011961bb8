"""`lmi serve --watch`: a changed file restarts the server, and is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lmi_deploy.domain.events import Event, Line, Notice
from lmi_deploy.workflows.serve import ServeOptions
from lmi_deploy.workflows.serve_watch import difference, snapshot_files, watch
from tests.support.fake_servers import Behaviour
from tests.support.local_app import LocalApp

FINE = "def handle(inputs):\n    return None\n"


@pytest.fixture
def folder(app: LocalApp) -> Path:
    model = app.root / "model"
    model.mkdir()
    (model / "model.py").write_text(FINE)
    (model / "serving.properties").write_text("engine=Python\n")
    return model


def watched(app: LocalApp, folder: Path) -> Iterator[Event]:
    options = ServeOptions(folder=folder, host="127.0.0.1", port=0, settings=None, python=None)
    return watch(options, app.deps())


def until(events: Iterator[Event], words: str) -> list[str]:
    """The events, up to a notice with these words."""
    messages = []
    for event in events:
        if isinstance(event, Notice | Line):
            messages.append(event.text)
        if isinstance(event, Notice) and words in event.text:
            return messages
    raise AssertionError(f"{words!r} was never told: {messages}")


def change(path: Path, text: str) -> None:
    path.write_text(text)


def test_changed_file_restarts_the_server_and_is_named(app: LocalApp, folder: Path) -> None:
    events = watched(app, folder)
    messages = until(events, "serving at http://127.0.0.1:")
    assert any("started" in line for line in messages), "the log is shown"
    change(folder / "model.py", FINE + "# more\n")
    assert until(events, "restarting")[-1] == "model.py changed: restarting"
    until(events, "serving at")
    assert len(app.servers.started) == 2
    assert len(app.servers.alive()) == 1
    (folder / "requirements.txt").write_text("x==1\n")
    assert until(events, "restarting")[-1] == "requirements.txt is new: restarting"
    events.close()  # type: ignore[attr-defined]
    assert app.servers.alive() == []


def test_invalid_handler_is_not_started_until_corrected(app: LocalApp, folder: Path) -> None:
    (folder / "model.py").write_text("def handle():\n    pass\n")
    events = watched(app, folder)
    messages = until(events, "not started")
    assert messages[0].startswith("model.py:1: handle() cannot be called with one argument")
    assert app.servers.started == []
    (folder / "model.py").write_text(FINE)
    until(events, "serving at")
    events.close()  # type: ignore[attr-defined]


def test_failed_start_is_diagnosed_and_waits_for_a_change(app: LocalApp, folder: Path) -> None:
    why = "the worker ended\nModuleNotFoundError: No module named 'nothing'"
    app.servers.next.append(Behaviour(end="failed", why=why))
    events = watched(app, folder)
    messages = until(events, "start it again")
    assert any(line.startswith("the model server failed: the worker ended") for line in messages)
    assert any("The package nothing, which the code imports" in line for line in messages)
    (folder / "model.py").write_text(FINE + "\n\n")
    until(events, "serving at")
    events.close()  # type: ignore[attr-defined]


def test_many_changed_files_are_summarised(tmp_path: Path) -> None:
    for name in "abcde":
        (tmp_path / name).write_text(name)
    before = snapshot_files(tmp_path)
    assert difference(before, before) == ""
    for name in "abcd":
        (tmp_path / name).write_text("longer")
    (tmp_path / "e").unlink()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_text("")
    (tmp_path / ".hidden").write_text("")
    assert difference(before, snapshot_files(tmp_path)) == "a changed, b changed, c changed and 2 more"


def test_server_settings_file_is_watched(app: LocalApp, folder: Path) -> None:
    settings = app.root / "config.properties"
    settings.write_text("job_queue_size=5\n")
    options = ServeOptions(folder=folder, host="127.0.0.1", port=0, settings=settings, python=None)
    events = watch(options, app.deps())
    until(events, "serving at")
    assert app.servers.started[-1].settings == settings
    change(settings, "job_queue_size=50\n")
    assert until(events, "restarting")[-1].endswith("config.properties changed: restarting")
    events.close()  # type: ignore[attr-defined]
