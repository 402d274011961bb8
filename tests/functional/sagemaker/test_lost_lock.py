"""A process suspended until another one has its lock, at every action of every plan, changes nothing more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.sagemaker.test_crash_matrix import fault_free_run
from tests.support.cloud_app import CloudApp, write_recipe
from tests.support.crash_injection import Crash
from tests.support.crash_scenarios import LOCK, SCENARIOS, CrashApp

BEFORE_THE_LOCK = frozenset({"MakeBucket"})


def _cases() -> Iterator[Any]:
    for name in SCENARIOS:
        for number, action in enumerate(fault_free_run(name).injector.actions):
            if action not in BEFORE_THE_LOCK:
                yield pytest.param(name, number, id=f"{name}: before {action} ({number})")


@pytest.mark.parametrize(("name", "number"), list(_cases()))
def test_lost_lock_stops_all_changes_and_reports_the_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    monkeypatch.chdir(tmp_path)
    app, scenario = CrashApp(tmp_path), SCENARIOS[name]
    app.restore(fault_free_run(name).before)
    write_recipe(scenario.recipe)
    result = app.crashed(Crash("before", number, "SIGSTOP"), *scenario.command)
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


def test_lost_lock_is_a_json_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app, scenario = CrashApp(tmp_path), SCENARIOS["down"]
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
