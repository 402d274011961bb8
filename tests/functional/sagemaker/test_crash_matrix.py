"""The crash matrix: every action of a SageMaker plan and every write of it is once the last of a process.

Wherever a process ends, the next `up` reaches the same state as an undisturbed `up`, and `down` leaves nothing.
The cases follow from the plans, and the plans' actions from the union `core.plan.Action`. The same again in an
account that is eventually consistent: the final state must be equal. There a process is killed after each
action and after each lost reply to an action, when AWS knows more than it shows.

Without the tests marked `long`, a selection runs: each ending at each moment of each action, and in each scenario
each ending and each moment.
"""

from __future__ import annotations

from typing import get_args

import pytest

from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.sagemaker.actions import CloudAction
from tests.support.cloud_app import write_recipe
from tests.support.crash_cases import (
    Case,
    FaultFreeRun,
    actions_and_moments,
    cases,
    fault_free_run,
    lagging_cases,
    traces,
    triples_and_scenarios,
    with_selection,
)
from tests.support.crash_scenarios import DOWN, SCENARIOS, CrashApp, converged, ended

OF_COMPILE = "RunCompileJob"
"""Not part of a deployment: `test_compile_crashes.py` ends it before, in and after each of its writes."""


@pytest.mark.parametrize("case", with_selection(cases(), triples_and_scenarios))
def test_up_converges_and_down_deletes_everything_after_a_crash(crash_app: CrashApp, case: Case) -> None:
    _converges(crash_app, case, fault_free_run(case.scenario))


@pytest.mark.parametrize("case", with_selection(lagging_cases(), actions_and_moments))
def test_up_converges_after_a_crash_with_consistency_lag(crash_app: CrashApp, case: Case) -> None:
    _converges(crash_app, case, fault_free_run(case.scenario, lagging=True))


@pytest.mark.parametrize("name", SCENARIOS)
def test_consistency_lag_does_not_change_the_outcome(name: str) -> None:
    assert fault_free_run(name, lagging=True).remaining == fault_free_run(name).remaining


def _converges(app: CrashApp, case: Case, plain: FaultFreeRun) -> None:
    scenario, crash = SCENARIOS[case.scenario], case.crash
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


def test_the_table_has_no_other_scenarios() -> None:
    assert [*traces(lagging=False)] == [*SCENARIOS]
