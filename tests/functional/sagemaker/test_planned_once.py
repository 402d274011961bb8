"""Each observed state is planned once: before the lock, and under it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lmi_deploy.targets.target import AnyTarget, Target
from tests.support.cloud_app import CloudApp


class CountingTarget:
    def __init__(self, target: AnyTarget, planned: list[Any]) -> None:
        self._target, self._planned = target, planned

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def plan_deployment(self, *args: Any) -> Any:
        self._planned.append(args)
        return self._target.plan_deployment(*args)


@pytest.fixture
def planned(app: CloudApp) -> list[Any]:
    """The arguments of every plan of a deployment."""
    found: list[Any] = []
    app.target = lambda target: cast("Target[Any, Any]", CountingTarget(target, found))
    return found


def test_first_up_plans_before_and_under_the_lock(app: CloudApp, planned: list[Any]) -> None:
    app.up()
    assert len(planned) == 2


def test_up_without_changes_plans_once(app: CloudApp, planned: list[Any]) -> None:
    app.up()
    planned.clear()
    app.up()
    assert len(planned) == 1
    planned.clear()
    assert "cost: $1.41 an hour" in app.lmi("plan").out
    assert len(planned) == 1


def test_saved_plan_without_probe_is_planned_before_and_under_the_lock(
    app: CloudApp, planned: list[Any]
) -> None:
    assert app.lmi("plan", "--out", "tiny.plan.json").code == 0
    planned.clear()
    result = app.lmi("up", "tiny.plan.json", "--yes", "--no-probe", "--json")
    assert result.code == 0, result.out
    assert len(planned) == 2
    actions = next(line for line in result.lines if line["event"] == "plan")["actions"]
    assert "probe-endpoint" not in [action["action"] for action in actions]
