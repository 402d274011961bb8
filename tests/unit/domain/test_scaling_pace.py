"""Autoscaling as requests, and back: the settings of lmi read back equal, those that others changed do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lmi_deploy.domain.recipe_scaling_keys import ScheduledBounds
from lmi_deploy.domain.sagemaker.scaling_requests import scaling_from, tracking_requests
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling, differs

BOUNDS = {"MinCapacity": 1, "MaxCapacity": 4}
DESIRED = Scaling(
    least=1, most=4, invocations=60, concurrency=8.0, scale_in_cooldown=600, scale_out_cooldown=30
)


def policies(scaling: Scaling) -> dict[str, dict[str, Any]]:
    """As Application Auto Scaling describes those that lmi puts."""
    return {
        name: {"PolicyName": name, "TargetTrackingScalingPolicyConfiguration": tracking}
        for name, tracking in tracking_requests("chat", scaling, "variant").items()
    }


def test_settings_that_were_sent_are_read_as_the_same() -> None:
    found = policies(DESIRED)
    assert len(found) == 2
    assert scaling_from(BOUNDS, [*found.values()], []) == DESIRED


@pytest.mark.parametrize("policy", ["lmi-invocations", "lmi-concurrency"])
@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("ScaleInCooldown", 60, "in 60 s, out 30 s"),
        ("ScaleOutCooldown", 60, "in 600 s, out 60 s"),
        ("DisableScaleIn", True, "in 600 s, out 30 s, never removes"),
    ],
)
def test_pace_of_any_one_policy_is_drift(policy: str, key: str, value: object, words: str) -> None:
    found = policies(DESIRED)
    found[policy]["TargetTrackingScalingPolicyConfiguration"][key] = value
    for order in ([*found.values()], [*found.values()][::-1]):
        live = scaling_from(BOUNDS, order, [])
        assert differs(live, DESIRED)
        assert live.summary_of("variant")[f"scaling.pace.{policy.removeprefix('lmi-')}"] == words
    assert not [key for key in DESIRED.summary_of("variant") if key.startswith("scaling.pace")]


def test_pace_of_every_policy_is_that_of_all() -> None:
    found = policies(DESIRED)
    for each in found.values():
        each["TargetTrackingScalingPolicyConfiguration"]["ScaleInCooldown"] = 60
    live = scaling_from(BOUNDS, [*found.values()], [])
    assert (live.scale_in_cooldown, live.uneven) == (60, ())
    assert differs(live, DESIRED)


def test_action_for_one_moment_is_no_drift_when_it_is_over() -> None:
    """Application Auto Scaling removes it then; one that repeats would still be there."""
    once = ScheduledBounds(name="launch", schedule="at(2026-12-01T08:00:00)", min=2)
    nightly = ScheduledBounds(name="night", schedule="cron(0 20 ? * * *)", max=1)
    desired = replace(DESIRED, scheduled=(once, nightly))
    assert not differs(replace(DESIRED, scheduled=(nightly,)), desired)
    assert differs(replace(DESIRED, scheduled=(once,)), desired)
