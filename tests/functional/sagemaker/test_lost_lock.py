"""A process suspended until another one has its lock, at every action of every plan, changes nothing more.

Without the tests marked `long`: at every kind of action.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from dataclasses import replace

import pytest

from tests.support.cloud_app import CloudApp, write_recipe
from tests.support.crash_cases import Case, cases, fault_free_run, with_selection
from tests.support.crash_injection import Crash
from tests.support.crash_scenarios import LOCK, SCENARIOS, CrashApp

BEFORE_THE_LOCK = frozenset({"MakeBucket"})


def _cases() -> Iterator[Case]:
    for case in cases():
        crash = replace(case.crash, ending="SIGSTOP")
        if case.crash == Crash("before", crash.number, "SIGKILL") and case.place not in BEFORE_THE_LOCK:
            yield replace(case, crash=crash, id=f"{case.scenario}: before {case.place} ({crash.number})")


def _actions_and_commands(case: Case) -> set[Hashable]:
    return {case.place, SCENARIOS[case.scenario].command}


@pytest.mark.parametrize("case", with_selection(_cases(), _actions_and_commands))
def test_lost_lock_stops_all_changes_and_reports_the_endpoint(crash_app: CrashApp, case: Case) -> None:
    app, name, scenario = crash_app, case.scenario, SCENARIOS[case.scenario]
    app.restore(fault_free_run(name).before)
    write_recipe(scenario.recipe)
    result = app.crashed(case.crash, *scenario.command)
    assert result is not None
    assert result.code == 1, result.err
    assert "tiny: the lock was lost, lmi down (pid " in result.err
    assert "on elsewhere" in result.err
    assert "nothing was changed after that" in result.err
    assert "next: check `lmi status tiny`" in result.err
    status = app.cloud.account_state.endpoints.get("tiny")
    ours = name != "adopt"  # an endpoint that is not taken over yet is its owner's
    if ours and status is not None and status.observed.status not in ("Failed", "Deleting"):
        assert f"the endpoint tiny is {status.observed.status} and still costs" in result.err
    assert app.story.writes[app.written :] == []
    assert json.loads(app.cloud.stores[app.bucket].objects[LOCK])["host"] == "elsewhere"


def test_lost_lock_is_a_json_result(crash_app: CrashApp) -> None:
    app, scenario = crash_app, SCENARIOS["down"]
    app.restore(fault_free_run("down").before)
    write_recipe(scenario.recipe)
    result = app.crashed(Crash("before", 0, "SIGSTOP"), *scenario.command, "--json")
    assert result is not None
    assert (result.code, result.err) == (1, "")
    assert (result.result["error"]["kind"], result.result["error"]["exit_code"]) == ("LockLost", 1)
    assert "still costs $1.41 an hour" in result.result["error"]["message"]


def test_unlock_of_a_deployment_that_is_not_locked(app: CloudApp) -> None:
    app.up()
    result = app.lmi("unlock", "tiny", "00000000", "--json").result
    assert (result["deployment"], result["held_by"]) == ("tiny", "")
