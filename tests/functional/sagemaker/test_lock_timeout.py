"""`--lock-timeout`: a command waits for another lmi, and plans again what that one has changed."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.functional.sagemaker.test_lifecycle import CHANGED
from tests.support.cloud_app import CloudApp

WAIT = ("--lock-timeout", "10m")


class Other:
    """Another lmi, which has the lock and ends after some seconds, with a change of its own."""

    def __init__(self, app: CloudApp, *argv: str, after: float) -> None:
        self.app, self.argv, self.after = app, argv, after
        self.held = ExitStack()
        self.held.enter_context(app.depot().lock.hold("tiny"))

    def sleep(self, seconds: float) -> None:
        clock = self.app.clock
        clock.passed += seconds
        self.after -= seconds
        if self.after <= 0 and self.argv:
            argv, self.argv = self.argv, ()
            self.held.close()
            assert self.app.lmi(*argv).code == 0


def beside(app: CloudApp, monkeypatch: pytest.MonkeyPatch, *argv: str, after: float = 70) -> Other:
    other = Other(app, *argv, after=after)
    monkeypatch.setattr(app.clock, "sleep", other.sleep)
    return other


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [
        (("status", "tiny"), ("up", *CHANGED, "--yes")),
        (("up", "--yes", "--set", "endpoint.count=3"), ("up", *CHANGED, "--yes")),
        (("down", "tiny", "--yes"), ("up", *CHANGED, "--yes")),
        (("up", "--yes", *CHANGED), ("down", "tiny", "--yes")),
        (("up", "--yes", *CHANGED), ("scale", "tiny", "2", "--yes")),
        (("status", "tiny"), ("rollback", "tiny", "--yes")),
    ],
)
def test_newer_command_waits_and_wins(
    app: CloudApp, monkeypatch: pytest.MonkeyPatch, theirs: tuple[str, ...], mine: tuple[str, ...]
) -> None:
    app.up()
    if mine[0] == "rollback":
        app.up(*CHANGED)
    before = app.observe().serving
    beside(app, monkeypatch, *theirs)
    ran = app.lmi(*mine, *WAIT)
    assert "waiting for at most 600 s: tiny: locked by lmi test" in ran.err
    assert ran.err.count("waiting for at most") == 2, "a line a minute"
    assert ran.code == 0, ran.err
    observed = app.observe()
    if mine[0] == "down":
        assert app.cloud_resources() == []
    elif mine[0] == "rollback":
        assert observed.serving not in ("", before)
    elif mine[0] == "up":
        assert observed.serving not in ("", before)
        assert app.lmi("plan", *CHANGED, "--exit-code").code == 0
    else:
        assert observed.endpoint is not None
        assert observed.endpoint.count == 2


def test_lock_that_stays_is_named_after_the_time(app: CloudApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app.up()
    beside(app, monkeypatch, "status", "tiny", after=10_000)
    before = app.clock.monotonic()
    ran = app.lmi("up", *CHANGED, "--yes", "--json", "--lock-timeout", "40")
    assert (ran.code, ran.result["error"]["kind"]) == (5, "Locked")
    assert "and still after 40 s" in ran.result["error"]["message"]
    assert app.clock.monotonic() - before >= 40


def test_saved_plan_is_not_made_again(app: CloudApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was agreed to: what another lmi has changed makes it stale."""
    app.up()
    assert app.lmi("plan", *CHANGED, "--out", "plan.json").code == 0
    beside(app, monkeypatch, "up", "--yes", "--set", "endpoint.count=3")
    ran = app.lmi("up", "plan.json", "--yes", "--json", *WAIT)
    assert (ran.code, ran.result["error"]["kind"]) == (5, "StalePlan")


@pytest.mark.parametrize("command", [("up", "--yes"), ("down", "tiny", "--yes")])
def test_unreadable_time_is_refused_before_anything(app: CloudApp, command: tuple[str, ...]) -> None:
    ran = app.lmi(*command, "--lock-timeout", "soon")
    assert (ran.code, "write 3600, 90m, 8h or 2d" in ran.err) == (2, True)
