"""The steps by which an update shifts traffic: the share of the new fleet, and how long it is watched."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from lmi_deploy.emulator.record_store import Row


@dataclass(frozen=True, slots=True)
class TrafficStep:
    share: float
    wait: float


def shifts(guard: Row | None, instances: int) -> Iterator[TrafficStep]:
    """All at once, canary, linear or rolling, by the deployment policy."""
    if guard and "RollingUpdatePolicy" in guard:
        policy = guard["RollingUpdatePolicy"]
        yield from _linear(policy["MaximumBatchSize"], instances, policy["WaitIntervalInSeconds"])
        return
    routing = ((guard or {}).get("BlueGreenUpdatePolicy") or {}).get("TrafficRoutingConfiguration") or {}
    wait = float(routing.get("WaitIntervalInSeconds", 0))
    match routing.get("Type"):
        case "CANARY":
            yield TrafficStep(_fraction(routing["CanarySize"], instances), wait)
            yield TrafficStep(1.0, wait)
        case "LINEAR":
            yield from _linear(routing["LinearStepSize"], instances, wait)
        case _:
            yield TrafficStep(1.0, wait)


def termination_wait(guard: Row | None) -> float:
    policy = (guard or {}).get("BlueGreenUpdatePolicy") or {}
    return float(policy.get("TerminationWaitInSeconds", 0))


def execution_limit(guard: Row | None) -> float:
    """Maximum seconds of a complete update."""
    policies = ("BlueGreenUpdatePolicy", "RollingUpdatePolicy")
    limits = [(guard or {}).get(name, {}).get("MaximumExecutionTimeoutInSeconds") for name in policies]
    return float(next((limit for limit in limits if limit is not None), math.inf))


def _linear(size: Row, instances: int, wait: float) -> Iterator[TrafficStep]:
    steps = max(1, math.ceil(1.0 / _fraction(size, instances)))
    for step in range(1, steps + 1):
        yield TrafficStep(step / steps, float(wait))


def _fraction(size: Row, instances: int) -> float:
    """A CapacitySize as a part of all."""
    if size["Type"] == "INSTANCE_COUNT":
        return min(1.0, float(size["Value"]) / max(1, instances))
    return min(1.0, float(size["Value"]) / 100.0)
