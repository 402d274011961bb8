"""Evaluate the alarms once a minute (those of metrics of 10 seconds as often), apply the policies and the schedules."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.resource_tasks import BackgroundTask
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.scaling.scalable_targets import HIGH_RESOLUTION
from lmi_deploy.emulator.scaling.scaled_variants import (
    POLICIES,
    TARGETS,
    last,
    name_of,
    scale,
    scaled,
    settle,
    shrinking,
)
from lmi_deploy.emulator.scaling.scheduled_actions import has_actions, run_due
from lmi_deploy.emulator.scaling.step_adjustments import stepped_count
from lmi_deploy.emulator.services.alarm_notifications import notify
from lmi_deploy.emulator.services.alarms import TABLE as ALARMS
from lmi_deploy.emulator.services.alarms import evaluate
from lmi_deploy.emulator.wire.errors import ApiError

MINUTE: Final = 60.0
COOLDOWN: Final = 300.0
MEMORY: Final = 3600.0
"""Seconds after the last value of any metric; later evaluations change nothing."""
_NAP: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A policy whose alarm rings, and the number that it asks for."""

    policy: Row
    alarm: str
    count: int
    out: bool


class AutoscalingLoop(BackgroundTask):
    """On the emulated clock, without making it faster. Skipped minutes are evaluated too."""

    name = "alarms"

    def __init__(
        self,
        context: EmulatorContext,
        measure: Callable[[float], None] = lambda at: None,
        measure_queues: Callable[[float], None] = lambda at: None,
    ) -> None:
        """`measure` puts the metrics of requests in progress and of idle components, `measure_queues` those of queues,
        once a minute.
        """
        super().__init__(context)
        self._measure, self._measure_queues = measure, measure_queues

    async def _run(self) -> None:
        clock = self._context.clock
        moment = clock.now()
        while True:
            interval = HIGH_RESOLUTION if self._has_fast_alarms() else MINUTE
            moment = moment - moment % interval + interval
            await clock.reach(moment)
            latest, late = self._context.metrics.latest, clock.now() - moment
            is_recent = moment <= latest + MEMORY or late < MINUTE or any(shrinking(self._context))
            if is_recent or has_actions(self._context):
                if moment % MINUTE == 0:
                    self._measure_queues(moment - 1)
                    run_due(self._context, after=moment - MINUTE, until=moment)
                if is_recent:
                    self.round(moment)
                await asyncio.sleep(0)
            else:
                moment = clock.now() - MINUTE
                await asyncio.sleep(_NAP)

    def _has_fast_alarms(self) -> bool:
        store = self._context.store
        alarms = (row for region in store.regions(ALARMS) for _, row in store.table(ALARMS, region).rows())
        return any(row["params"].get("Period", MINUTE) < MINUTE for row in alarms)

    def round(self, moment: float) -> None:
        store = self._context.store
        self._measure(moment - 1)
        for region in store.regions(ALARMS):
            settle(self._context, region)
            ringing: list[tuple[str, Row, float | None]] = []
            for name, row in store.table(ALARMS, region).rows():
                if moment % MINUTE and row["params"].get("Period", MINUTE) >= MINUTE:
                    continue
                evaluation = evaluate(row["params"], self._context.metrics, region, moment)
                if evaluation is not None and row["state"] != evaluation.state:
                    now, before = self._context.clock.now(), row["state"]
                    row.update(state=evaluation.state, reason=evaluation.reason, changed=now)
                    store.table(ALARMS, region).put(name, row)
                    notify(self._context, region, name, row, before)
                if row["state"] == "ALARM" and row["params"].get("ActionsEnabled", True):
                    ringing.append((name, row, evaluation.value if evaluation is not None else None))
            self._act(region, ringing)

    def _act(self, region: str, ringing: list[tuple[str, Row, float | None]]) -> None:
        """For each target the largest number that a policy asks for; one that removes instances waits for all others
        (user guide, "How target tracking scaling for Application Auto Scaling works", "Considerations").
        """
        requests: dict[str, list[_Request]] = defaultdict(list)
        for name, alarm, value in ringing:
            for request in self._requests(region, name, alarm, value):
                requests[name_of(request.policy["params"])].append(request)
        for target, asked in requests.items():
            chosen = [each for each in asked if each.out] or asked
            best = max(chosen, key=lambda each: each.count)
            steps = best.policy["params"]["PolicyType"] == "StepScaling"
            if best.out or steps or self._all_ready(region, target):
                self._scale(region, best)

    def _requests(self, region: str, name: str, alarm: Row, value: float | None) -> Iterator[_Request]:
        for _, policy in self._context.table(POLICIES, region).rows():
            if policy["arn"] not in alarm["params"].get("AlarmActions", ()):
                continue
            try:
                variant = scaled(self._context, region, policy["params"])
            except ApiError:
                continue  # it is being deleted
            count = self._asked(policy, name, alarm, value, variant.desired)
            if count is None or count == variant.desired or not variant.is_settled:
                continue
            out = count > variant.desired
            if not self._is_in_cooldown(region, policy["params"], out=out):
                yield _Request(policy=policy, alarm=name, count=count, out=out)

    def _asked(self, policy: Row, name: str, alarm: Row, value: float | None, count: int) -> int | None:
        """The number that the policy asks for; None if it asks for none."""
        if policy["params"]["PolicyType"] == "StepScaling":
            if value is None:
                return None  # the step is chosen by the value
            beyond = value - float(alarm["params"]["Threshold"])
            return stepped_count(count, beyond, policy["params"]["StepScalingPolicyConfiguration"])
        if name not in policy["alarms"].values():
            return None
        return desired_count(count, value, policy, out=name == policy["alarms"]["High"])

    def _all_ready(self, region: str, target: str) -> bool:
        """Whether each policy that may remove instances asks for it."""
        policies = (row for _, row in self._context.table(POLICIES, region).rows())
        low = [
            each["alarms"]["Low"]
            for each in policies
            if name_of(each["params"]) == target and "Low" in each["alarms"]
        ]
        states = (self._context.table(ALARMS, region).get(name) for name in low)
        return all(row is not None and row["state"] == "ALARM" for row in states)

    def _scale(self, region: str, request: _Request) -> None:
        """Within the bounds."""
        params = request.policy["params"]
        target = self._context.table(TARGETS, region).get(name_of(params))
        if target is None:
            return
        count = max(target["params"]["MinCapacity"], min(target["params"]["MaxCapacity"], request.count))
        if count != scaled(self._context, region, params).desired:
            cause = f"monitor alarm {request.alarm} in state ALARM triggered policy {params['PolicyName']}"
            scale(self._context, region, params, count=count, cause=cause, out=request.out)

    def _is_in_cooldown(self, region: str, params: Row, *, out: bool) -> bool:
        if params["PolicyType"] == "StepScaling":
            cooldown = float(params["StepScalingPolicyConfiguration"].get("Cooldown", COOLDOWN))
        else:
            tracking = params["TargetTrackingScalingPolicyConfiguration"]
            cooldown = float(tracking.get("ScaleOutCooldown" if out else "ScaleInCooldown", COOLDOWN))
        # Scaling in also waits after a scaling out.
        latest = max(last(self._context, region, params, out=way) for way in {True, out})
        return self._context.clock.now() < latest + cooldown


def desired_count(count: int, value: float | None, policy: Row, *, out: bool) -> int:
    """So many that each would have its target; without a value (an alarm set by hand) one more or one less."""
    target = float(policy["params"]["TargetTrackingScalingPolicyConfiguration"]["TargetValue"])
    if value is None:
        return count + 1 if out else count - 1
    # Of no instance a metric per instance is measured as of one.
    exact = math.ceil(max(count, 1) * value / target)
    return max(count + 1, exact) if out else min(count - 1, exact)
