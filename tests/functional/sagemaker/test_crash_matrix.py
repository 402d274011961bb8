"""The crash matrix: every action of a SageMaker plan and every write of it is once the last of a process.

Wherever a process ends, the next `up` reaches the same state as an undisturbed `up`, and `down` leaves nothing.
The cases follow from the plans, and the plans' actions from the union `core.plan.Action`. The same again in an
account that is eventually consistent: the final state must be equal. There a process is killed after each
action and after each lost reply to an action, when AWS knows more than it shows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.sagemaker.actions import CloudAction
from tests.support.cloud_app import write_recipe
from tests.support.crash_injection import BETWEEN, Crash, CrashInjector, CrashKind, Moment
from tests.support.crash_scenarios import (
    DOWN,
    SCENARIOS,
    CrashApp,
    Snapshot,
    converged,
    ended,
    prepared,
    steps,
)

MOMENTS: tuple[Moment, ...] = ("before", "after")
OF_COMPILE = "RunCompileJob"
"""Not part of a deployment: `test_compile_crashes.py` ends it before, in and after each of its writes."""
SIGNALS: tuple[CrashKind, ...] = ("SIGKILL", "SIGINT")


class _FaultFree:
    """The state before the command, what the command does, and the state after it and one more `up`."""

    def __init__(self, name: str, *, lagging: bool) -> None:
        scenario = SCENARIOS[name]
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            app = CrashApp(Path(folder))
            prepared(app, scenario, lagging=lagging)
            self.before: Snapshot = app.snapshot()
            self.injector: CrashInjector = steps(app, scenario)
            self.remaining: dict[str, Any] = converged(app)


@cache
def fault_free_run(name: str, *, lagging: bool = False) -> _FaultFree:
    return _FaultFree(name, lagging=lagging)


def _cases() -> Iterator[Any]:
    for name in SCENARIOS:
        injector = fault_free_run(name).injector
        for number, action in enumerate(injector.actions):
            for moment in MOMENTS[: 2 if number in injector.done else 1]:
                for signal in SIGNALS:
                    yield pytest.param(
                        name,
                        Crash(moment, number, signal),
                        id=f"{name}: {signal} {moment} {action} ({number})",
                    )
        for number, (action, _) in enumerate(injector.writes):
            endings: tuple[CrashKind, ...] = SIGNALS if action == BETWEEN else (*SIGNALS, "broken connection")
            for suffix in endings:
                where = "the lock or the record" if action == BETWEEN else action
                yield pytest.param(
                    name,
                    Crash("reply lost", number, suffix),
                    id=f"{name}: {suffix} at the lost reply to {where} ({number})",
                )


def _lagging_cases() -> Iterator[Any]:
    for name in SCENARIOS:
        injector = fault_free_run(name, lagging=True).injector
        for number in injector.done:
            crash = Crash("after", number, "SIGKILL")
            yield pytest.param(name, crash, id=f"{name}: after {injector.actions[number]} ({number})")
        for number, (action, _) in enumerate(injector.writes):
            if action != BETWEEN:
                crash = Crash("reply lost", number, "SIGKILL")
                yield pytest.param(name, crash, id=f"{name}: lost reply to {action} ({number})")


@pytest.fixture
def crash_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrashApp:
    monkeypatch.chdir(tmp_path)
    return CrashApp(tmp_path)


@pytest.mark.parametrize(("name", "crash"), list(_cases()))
def test_up_converges_and_down_deletes_everything_after_a_crash(
    crash_app: CrashApp, name: str, crash: Crash
) -> None:
    _converges(crash_app, name, crash, fault_free_run(name))


@pytest.mark.parametrize(("name", "crash"), list(_lagging_cases()))
def test_up_converges_after_a_crash_with_consistency_lag(
    crash_app: CrashApp, name: str, crash: Crash
) -> None:
    _converges(crash_app, name, crash, fault_free_run(name, lagging=True))


@pytest.mark.parametrize("name", SCENARIOS)
def test_consistency_lag_does_not_change_the_outcome(name: str) -> None:
    assert fault_free_run(name, lagging=True).remaining == fault_free_run(name).remaining


def _converges(app: CrashApp, name: str, crash: Crash, plain: _FaultFree) -> None:
    scenario = SCENARIOS[name]
    app.restore(plain.before)
    write_recipe(scenario.recipe)
    result = app.crashed(crash, *scenario.command)
    if crash.ending == "SIGKILL":
        assert result is None
    else:
        assert result is not None
        expected = (130,) if crash.ending == "SIGINT" else (0, 1)
        assert result.code in expected, result.err
        assert result.code == 0 or "next: " in result.err, result.err
    if scenario.repeated:
        ended_well = app.lmi(*scenario.command)
        assert ended_well.code == 0, ended_well.err
    crashed = app.snapshot()
    assert converged(app) == plain.remaining
    ended(app, DOWN)
    app.restore(crashed)
    ended(app, scenario.command if scenario.command[0] == "down" else DOWN)


def test_every_sagemaker_action_occurs_in_a_scenario() -> None:
    known = {action.kind for action in get_args(Action)}
    tried = {action for name in SCENARIOS for action in fault_free_run(name).injector.actions}
    performable = set().union(*(fault_free_run(name).injector.performable for name in SCENARIOS))
    assert {action.kind for action in get_args(CloudAction)} - {OF_COMPILE} <= performable <= known
    assert tried == performable
