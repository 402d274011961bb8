"""Once a minute: evaluate the alarms, and apply the policies."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from lmi_deploy.emulator.hosting.resource_tasks import BackgroundTask
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.scaling.scaled_variants import (
    POLICIES,
    TARGETS,
    Variant,
    last,
    name_of,
    scale,
    settle,
)
from lmi_deploy.emulator.services.alarms import TABLE as ALARMS
from lmi_deploy.emulator.services.alarms import evaluate
from lmi_deploy.emulator.wire.errors import ApiError

MINUTE: Final = 60.0
COOLDOWN: Final = 300.0
MEMORY: Final = 3600.0
"""Seconds after the last value of any metric; later evaluations change nothing."""
_NAP: Final = 0.05


class AutoscalingLoop(BackgroundTask):
    """On the emulated clock, without making it faster. Skipped minutes are evaluated too."""

    name = "alarms"

    async def _run(self) -> None:
        clock = self._context.clock
        moment = clock.now()
        while True:
            moment = moment - moment % MINUTE + MINUTE
            await clock.reach(moment)
            if moment <= self._context.metrics.latest + MEMORY or clock.now() - moment < MINUTE:
                self.round(moment)
                await asyncio.sleep(0)
            else:
                moment = clock.now() - MINUTE
                await asyncio.sleep(_NAP)

    def round(self, moment: float) -> None:
        store = self._context.store
        for region in store.regions(ALARMS):
            settle(self._context, region)
            for name, row in store.table(ALARMS, region).rows():
                evaluation = evaluate(row["params"], self._context.metrics, region, moment)
                if evaluation is not None and row["state"] != evaluation.state:
                    now = self._context.clock.now()
                    row.update(state=evaluation.state, reason=evaluation.reason, changed=now)
                    store.table(ALARMS, region).put(name, row)
                if row["state"] == "ALARM" and row["params"].get("ActionsEnabled", True):
                    self._act(region, name, row, evaluation.value if evaluation is not None else None)

    def _act(self, region: str, name: str, alarm: Row, value: float | None) -> None:
        for _, policy in self._context.table(POLICIES, region).rows():
            if policy["arn"] in alarm["params"].get("AlarmActions", ()) and name in policy["alarms"].values():
                self._track(region, name, policy, value)

    def _track(self, region: str, alarm: str, policy: Row, value: float | None) -> None:
        """Towards the target value, within the bounds, when the last change is long enough ago."""
        params, out = policy["params"], alarm == policy["alarms"]["High"]
        target = self._context.table(TARGETS, region).get(name_of(params))
        try:
            variant = Variant(self._context, region, params)
        except ApiError:
            return  # it is being deleted
        if target is None or not variant.is_settled or self._is_in_cooldown(region, params, out=out):
            return
        count = desired_count(variant.desired, value, policy, out=out)
        count = max(target["params"]["MinCapacity"], min(target["params"]["MaxCapacity"], count))
        if count != variant.desired:
            cause = f"monitor alarm {alarm} in state ALARM triggered policy {params['PolicyName']}"
            scale(self._context, region, params, count=count, cause=cause, out=out)

    def _is_in_cooldown(self, region: str, params: Row, *, out: bool) -> bool:
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
    exact = math.ceil(count * value / target)
    return max(count + 1, exact) if out else min(count - 1, exact)
