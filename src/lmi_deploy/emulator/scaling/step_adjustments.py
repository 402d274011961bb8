"""Step scaling: which step a value takes, and the number that follows from it.

Sources: Application Auto Scaling API reference, StepAdjustment (bounds inclusive and exclusive by the side of the
threshold; no bound is infinite; no overlap and no gap), StepScalingPolicyConfiguration; its user guide, "Step scaling
policies" (of percentages, numbers above 1 are rounded down, those between 0 and 1 up, and the same below zero) and
"Quotas" (20 steps). The words of the refusals are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from lmi_deploy.domain.recipe_scaling_keys import MOST_STEPS
from lmi_deploy.emulator.wire.errors import ApiError, refused

_LOW: Final = "MetricIntervalLowerBound"
_HIGH: Final = "MetricIntervalUpperBound"


def stepped_count(count: int, beyond: float, policy: Mapping[str, Any]) -> int | None:
    """`beyond` is the value less the threshold. None without a step for it."""
    step = next((each for each in policy["StepAdjustments"] if _holds(each, beyond)), None)
    if step is None:
        return None
    change = int(step["ScalingAdjustment"])
    if policy["AdjustmentType"] == "ExactCapacity":
        return change
    if policy["AdjustmentType"] == "PercentChangeInCapacity":
        size = max(abs(_whole(count * change / 100)), int(policy.get("MinAdjustmentMagnitude", 0)))
        change = int(math.copysign(size, change))
    return max(count + change, 0)


def _holds(step: Mapping[str, Any], beyond: float) -> bool:
    low, high = step.get(_LOW, -math.inf), step.get(_HIGH, math.inf)
    return bool(low <= beyond < high if beyond >= 0 else low < beyond <= high) or (beyond == 0 and high == 0)


def _whole(change: float) -> int:
    rounded = math.ceil(abs(change)) if abs(change) < 1 else math.floor(abs(change))
    return int(math.copysign(rounded, change))


def check_steps(policy: Mapping[str, Any]) -> None:
    steps = policy.get("StepAdjustments") or ()
    if "AdjustmentType" not in policy or not steps:
        raise refused(
            "AdjustmentType and at least one step adjustment are required for a step scaling policy."
        )
    if len(steps) > MOST_STEPS:
        raise ApiError(
            "LimitExceededException", f"A step scaling policy can have at most {MOST_STEPS} steps."
        )
    if any(step.get(_LOW, -math.inf) >= step.get(_HIGH, math.inf) for step in steps):
        raise refused("The upper bound of a step adjustment must be greater than its lower bound.")
    ordered = sorted(steps, key=lambda step: step.get(_LOW, -math.inf))
    if any(first.get(_HIGH, math.inf) != then.get(_LOW, -math.inf) for first, then in pairwise(ordered)):
        raise refused("Step adjustments must neither overlap nor have a gap between them.")
    if policy["AdjustmentType"] == "ExactCapacity" and any(step["ScalingAdjustment"] < 0 for step in steps):
        raise refused("For exact capacity a scaling adjustment must not be negative.")
