"""The crash matrix: every action of a plan for SageMaker, every write of it, each the last of a process.

Whatever ends wherever: `up` again brings what an `up` that nothing happened to would have brought, no more and no
less; `down` leaves nothing. The cases follow from the plans, the plans' actions from the union `core.plan.Action`.

The same once more in an account that is eventually consistent: what stands in the end is what would stand in one that
is not. There a process is killed after each action and as each reply of an action is lost, which is where AWS knows
more than it shows.
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
from tests.support.crash_injection import BETWEEN, Blow, Ending, Fate, Moment
from tests.support.crash_scenarios import (
    DOWN,
    SCENARIOS,
    CrashHouse,
    Photo,
    converged,
    ended,
    prepared,
    steps,
)

MOMENTS: tuple[Moment, ...] = ("before", "after")
SIGNALS: tuple[Ending, ...] = ("SIGKILL", "SIGINT")


class _Undisturbed:
    """A scenario before its command, what the command does, and what stands after it and one more `up`."""

    def __init__(self, name: str, *, lagging: bool) -> None:
        scenario = SCENARIOS[name]
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            house = CrashHouse(Path(folder))
            prepared(house, scenario, lagging=lagging)
            self.before: Photo = house.photograph()
            self.fate: Fate = steps(house, scenario)
            self.standing: dict[str, Any] = converged(house)


@cache
def undisturbed(name: str, *, lagging: bool = False) -> _Undisturbed:
    return _Undisturbed(name, lagging=lagging)


def _cases() -> Iterator[Any]:
    for name in SCENARIOS:
        fate = undisturbed(name).fate
        for number, action in enumerate(fate.actions):
            for moment in MOMENTS[: 2 if number in fate.done else 1]:
                for signal in SIGNALS:
                    yield pytest.param(
                        name,
                        Blow(moment, number, signal),
                        id=f"{name}: {signal} {moment} {action} ({number})",
                    )
        for number, (action, _) in enumerate(fate.writes):
            endings: tuple[Ending, ...] = SIGNALS if action == BETWEEN else (*SIGNALS, "broken connection")
            for ending in endings:
                where = "the lock or the record" if action == BETWEEN else action
                yield pytest.param(
                    name,
                    Blow("reply lost", number, ending),
                    id=f"{name}: {ending} as the reply is lost to {where} ({number})",
                )


def _lagging_cases() -> Iterator[Any]:
    for name in SCENARIOS:
        fate = undisturbed(name, lagging=True).fate
        for number in fate.done:
            blow = Blow("after", number, "SIGKILL")
            yield pytest.param(name, blow, id=f"{name}: after {fate.actions[number]} ({number})")
        for number, (action, _) in enumerate(fate.writes):
            if action != BETWEEN:
                blow = Blow("reply lost", number, "SIGKILL")
                yield pytest.param(name, blow, id=f"{name}: as the reply is lost to {action} ({number})")


@pytest.fixture
def crash_house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrashHouse:
    monkeypatch.chdir(tmp_path)
    return CrashHouse(tmp_path)


@pytest.mark.parametrize(("name", "blow"), list(_cases()))
def test_up_converges_and_down_leaves_nothing_after(crash_house: CrashHouse, name: str, blow: Blow) -> None:
    _converges(crash_house, name, blow, undisturbed(name))


@pytest.mark.parametrize(("name", "blow"), list(_lagging_cases()))
def test_it_converges_where_aws_lags_after(crash_house: CrashHouse, name: str, blow: Blow) -> None:
    _converges(crash_house, name, blow, undisturbed(name, lagging=True))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_lag_changes_nothing_in_the_end(name: str) -> None:
    assert undisturbed(name, lagging=True).standing == undisturbed(name).standing


def _converges(house: CrashHouse, name: str, blow: Blow, plain: _Undisturbed) -> None:
    scenario = SCENARIOS[name]
    house.restore(plain.before)
    write_recipe(scenario.recipe)
    ran = house.struck(blow, *scenario.command)
    if blow.ending == "SIGKILL":
        assert ran is None
    else:
        assert ran is not None
        wanted = (130,) if blow.ending == "SIGINT" else (0, 1)
        assert ran.code in wanted, ran.err
        assert ran.code == 0 or "next: " in ran.err, ran.err
    crashed = house.photograph()
    assert converged(house) == plain.standing
    ended(house, DOWN)
    house.restore(crashed)
    ended(house, scenario.command if scenario.command[0] == "down" else DOWN)


def test_every_action_that_sagemaker_can_be_asked_for_is_in_a_scenario() -> None:
    known = {action.__name__ for action in get_args(Action)}
    tried = {action for name in SCENARIOS for action in undisturbed(name).fate.actions}
    performable = set().union(*(undisturbed(name).fate.performable for name in SCENARIOS))
    assert {action.__name__ for action in get_args(CloudAction)} <= performable <= known
    assert tried == performable
