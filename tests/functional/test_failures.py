"""Fail at step n, die at step n: whatever remains, `up` reaches the one desired server and `down` leaves
nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.action_failures import ActionFailures, Killed, KilledAtCommit, When, fail, failing
from tests.support.local_app import RECIPE, LocalApp

CHANGE = ("--set", "options.dtype=fp32")
FIRST = ("up", "--yes")
CHANGED = ("up", "--yes", *CHANGE)
DOWN = ("down", "tiny", "--yes")
SITUATIONS: dict[str, tuple[list[tuple[str, ...]], tuple[str, ...]]] = {
    "first up": ([], FIRST),
    "changed recipe": ([FIRST], CHANGED),
    "another address": ([FIRST], ("up", "--yes", "--set", "endpoint.port=0")),
    "teardown": ([FIRST], DOWN),
}


def _new(root: Path) -> LocalApp:
    (root / "tiny.yaml").write_text(RECIPE)
    return LocalApp(root)


def _command(app: LocalApp, argv: tuple[str, ...]) -> tuple[str, ...]:
    """`endpoint.port=0` is replaced by a free port."""
    return tuple(f"endpoint.port={app.other_port()}" if word == "endpoint.port=0" else word for word in argv)


def _steps(before: list[tuple[str, ...]], command: tuple[str, ...]) -> list[str]:
    """The actions of a plan, read from the plan itself."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        app = _new(Path(folder))
        for argv in before:
            app.lmi(*argv)
        lines = app.lmi(*_command(app, command), "--json").lines
        app.servers.close()
    return [line["key"].partition(":")[0] for line in lines if line["event"] == "started"]


CASES = [
    pytest.param(situation, at, when, id=f"{situation}: {when} {step}")
    for situation, (before, command) in SITUATIONS.items()
    for at, step in enumerate(_steps(before, command))
    for when in ("before", "after")
]


def _converges(app: LocalApp, argv: tuple[str, ...]) -> None:
    """One `up` in any state: one server, the desired one, recorded; nothing more to do."""
    result = app.lmi(*argv)
    assert result.code == 0, result.err
    observed = app.observed()
    assert app.servers.alive() == [observed.serving]
    assert [server.server for server in observed.servers] == [observed.serving]
    assert len(observed.artifacts) == 1
    assert observed.record is not None
    assert observed.record.current is not None
    assert observed.record.current.server == observed.serving
    assert result.out == f"http://127.0.0.1:{observed.record.current.port}/invocations\n"
    assert app.lmi("status").code == 0
    assert "nothing to do" in app.lmi(*argv).err
    assert app.lmi("invoke", "hello").out == "OK then\n"


def _ends(app: LocalApp) -> None:
    result = app.lmi(*DOWN)
    assert result.code == 0, result.err
    assert app.artifacts_left() == []
    assert app.servers.alive() == []


@pytest.mark.parametrize("error", [fail, Killed], ids=["fails", "dies"])
@pytest.mark.parametrize(("situation", "at", "when"), CASES)
def test_up_and_down_converge_after_a_failed_or_killed_action(
    app: LocalApp, situation: str, at: int, when: When, error: Callable[[], BaseException]
) -> None:
    before, command = SITUATIONS[situation]
    command = _command(app, command)
    expected = command if command != DOWN else FIRST
    recovered = [partial(_converges, app, argv) for argv in dict.fromkeys((expected, FIRST))]
    for aftermath in (*recovered, lambda: None):
        for argv in before:
            app.lmi(*argv)
        failures = ActionFailures(at=at, when=when, error=error)
        app.target = lambda target, failure=failures: failing(target, failure)
        if error is Killed:
            with pytest.raises(Killed):
                app.lmi(*command)
        else:
            result = app.lmi(*command)
            assert (result.code, result.out) == (1, "")
            assert "error: the step failed\n  next: this is a test" in result.err
        app.target = lambda target: target
        aftermath()
        _ends(app)
        app.environments.created.clear()
        app.hub.cached.clear()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("situation", ["first up", "changed recipe", "another address"])
def test_up_and_down_converge_after_a_kill_during_commit(app: LocalApp, situation: str, when: When) -> None:
    before, command = SITUATIONS[situation]
    expected = _command(app, command)
    for argv in before:
        app.lmi(*argv)
    app.journal = lambda journal: KilledAtCommit(journal, when)
    with pytest.raises(Killed):
        app.lmi(*expected)
    app.journal = lambda journal: journal
    _converges(app, expected)
    _ends(app)
