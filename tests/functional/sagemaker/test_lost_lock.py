"""A process that stands still until another one has its lock, at every action of every plan, changes nothing more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.sagemaker.test_crash_matrix import undisturbed
from tests.support.cloud_app import write_recipe
from tests.support.crash_injection import Blow
from tests.support.crash_scenarios import LOCK, SCENARIOS, CrashHouse

BEFORE_THE_LOCK = frozenset({"MakeBucket"})


def _cases() -> Iterator[Any]:
    for name in SCENARIOS:
        for number, action in enumerate(undisturbed(name).fate.actions):
            if action not in BEFORE_THE_LOCK:
                yield pytest.param(name, number, id=f"{name}: before {action} ({number})")


@pytest.mark.parametrize(("name", "number"), list(_cases()))
def test_who_lost_the_lock_changes_nothing_more_and_says_what_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    monkeypatch.chdir(tmp_path)
    house, scenario = CrashHouse(tmp_path), SCENARIOS[name]
    house.restore(undisturbed(name).before)
    write_recipe(scenario.recipe)
    ran = house.struck(Blow("before", number, "SIGSTOP"), *scenario.command)
    assert ran is not None
    assert ran.code == 1, ran.err
    assert "tiny: the lock was lost, lmi down (pid " in ran.err
    assert "on elsewhere" in ran.err
    assert "nothing more was changed" in ran.err
    assert "next: `lmi status tiny` shows what is there" in ran.err
    standing = house.cloud.world.endpoints.get("tiny")
    if standing is not None and standing.seen.status not in ("Failed", "Deleting"):
        assert f"the endpoint tiny is {standing.seen.status} and goes on costing" in ran.err
    assert house.told.writes[house.written :] == []
    assert json.loads(house.cloud.stores[house.bucket].objects[LOCK])["host"] == "elsewhere"


def test_the_loss_is_a_result_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    house, scenario = CrashHouse(tmp_path), SCENARIOS["down"]
    house.restore(undisturbed("down").before)
    write_recipe(scenario.recipe)
    ran = house.struck(Blow("before", 0, "SIGSTOP"), *scenario.command, "--json")
    assert ran is not None
    assert (ran.code, ran.err) == (1, "")
    assert (ran.result["error"]["kind"], ran.result["error"]["exit_code"]) == ("LockLost", 1)
    assert "goes on costing $1.41 an hour" in ran.result["error"]["message"]
