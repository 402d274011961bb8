"""The states of an endpoint, in order: each sequence starts at the recorded state and ends in a stable one."""

from __future__ import annotations

import asyncio
from typing import Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed
from lmi_deploy.emulator.hosting.instance_pools import (
    remove_surplus,
    running_count,
    running_type,
    types_of,
)
from lmi_deploy.emulator.hosting.instances import InstanceLocation
from lmi_deploy.emulator.hosting.resource_tasks import Key, ResourceTasks
from lmi_deploy.emulator.hosting.traffic_shifting import (
    Fleet,
    Fleets,
    TrafficRoute,
    execution_limit,
    shifts,
    termination_wait,
)
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.endpoints import alarms_of
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT
from lmi_deploy.emulator.services.alarms import is_ringing

DELETION: Final = 5.0
SCALING: Final = 60.0
POLL_INTERVAL: Final = 1.0
"""Real seconds that containers get to stop when the emulator stops."""
WATCH: Final = 10.0
"""Seconds between two looks at the alarms of an update."""


class EndpointController(ResourceTasks):
    def __init__(self, context: EmulatorContext, fleets: Fleets) -> None:
        super().__init__(context, ENDPOINT)
        self._fleets = fleets

    def resume(self) -> None:
        self._fleets.instances.sweep()
        super().resume()

    async def stop(self) -> None:
        """End every task and every container; the records stay as they are."""
        await self.end_tasks()
        keys = list(self._fleets.routes)
        await asyncio.gather(*(self._fleets.take_down_all(key, grace=POLL_INTERVAL) for key in keys))

    async def _run(self, key: Key) -> None:
        match self._row(key)["status"]:
            case "Creating":
                await self._create(key)
            case "Updating" | "SystemUpdating" | "RollingBack":
                await self._update(key)
            case "Deleting":
                await self._delete(key)
            case "InService" | "OutOfService" | "UpdateRollbackFailed":
                await self._restart(key)
            case _:
                pass  # Failed: nothing runs, and nothing will

    async def _create(self, key: Key) -> None:
        row = self._row(key)
        try:
            fleet = await self._fleets.start(key, row["pending"])
        except HostingFailed as exc:
            self._change(key, status="Failed", failure=exc.reason)
            return
        self._fleets.routes[key] = TrafficRoute(fleet)
        self._change(
            key, status="InService", serving=_started_instances(row["pending"], self._context), pending=None
        )

    async def _update(self, key: Key) -> None:
        await self._restart(key)
        row = self._row(key)
        if row["pending"] is None:
            await self._scale(key)
            return
        green: Fleet | None = None
        limit = execution_limit(row["guard"])
        try:
            async with self._context.clock.deadline(row["pending"]["began"] + limit):
                green = await self._fleets.start(key, row["pending"])
                await self._move_over(key, green)
        except TimeoutError:
            why = f"within MaximumExecutionTimeoutInSeconds, {limit:.0f} seconds."
            await self._roll_back(key, green, f"The update of the endpoint did not complete {why}")
        except HostingFailed as exc:
            await self._roll_back(key, green, exc.reason)
        except asyncio.CancelledError:
            await self._drop_green(key, green)
            raise
        else:
            await self._replace(key, green)

    async def _move_over(self, key: Key, green: Fleet) -> None:
        row, route = self._row(key), self._fleets.routes.setdefault(key, TrafficRoute(green))
        route.green = green
        count = sum(variant["desired_count"] for variant in row["pending"]["variants"])
        for session in shifts(row["guard"], count):
            route.share = session.share
            await self._watch(key, session.wait)

    async def _watch(self, key: Key, seconds: float) -> None:
        """Bake for so long; HostingFailed as soon as an alarm rings."""
        clock = self._context.clock
        end = clock.now() + seconds
        while True:
            for alarm in alarms_of(self._row(key)["guard"]):
                if is_ringing(self._context, key[0], alarm):
                    raise HostingFailed(f"One or more configured alarms have gone into ALARM state: {alarm}.")
            if clock.now() >= end:
                return
            await clock.until(min(end, clock.now() + WATCH))

    async def _replace(self, key: Key, green: Fleet) -> None:
        route, row = self._fleets.routes[key], self._row(key)
        await self._watch(key, 0.0)
        blue, self._fleets.routes[key] = route.blue, TrafficRoute(green)
        await self._context.clock.sleep(termination_wait(row["guard"]))
        await self._fleets.take_down(blue)
        self._change(
            key, status="InService", serving=_started_instances(row["pending"], self._context), pending=None
        )

    async def _roll_back(self, key: Key, green: Fleet | None, reason: str) -> None:
        """Back to the old deployment, which never stopped serving; a rule for phase `rollback` makes it fail."""
        self._change(key, status="RollingBack", failure=reason, pending=None)
        await self._drop_green(key, green)
        serving = self._row(key)["serving"]
        try:
            for variant in serving["variants"]:
                await self._fleets.instances.apply_faults("rollback", _place(key, variant))
            await self._context.clock.sleep(SCALING)
        except HostingFailed as exc:
            self._change(key, status="UpdateRollbackFailed", failure=exc.reason)
            return
        self._change(key, status="InService", failure=reason)

    async def _drop_green(self, key: Key, green: Fleet | None) -> None:
        if key in self._fleets.routes:
            self._fleets.routes[key].green = None
            self._fleets.routes[key].share = 0.0
        await self._fleets.take_down(green)

    async def _scale(self, key: Key) -> None:
        """A change of counts and weights. One that fails is rolled back, and the endpoint is in service as before
        (botocore 1.44, DescribeEndpoint, EndpointStatus, RollingBack).
        """
        over = self._context.clock.now() + SCALING
        try:
            await self._provision_more(key)
        except HostingFailed as exc:
            row = self._row(key)
            for variant in row["serving"]["variants"]:
                variant["desired_weight"], variant["desired_count"] = variant["weight"], variant["count"]
                remove_surplus(variant)
            self._change(key, status="RollingBack", failure=exc.reason, serving=row["serving"])
        await self._context.clock.until(over)
        row = self._row(key)
        if row["serving"] is not None:
            for variant in row["serving"]["variants"]:
                variant["weight"], variant["count"] = variant["desired_weight"], variant["desired_count"]
                remove_surplus(variant)
        self._change(key, status="InService", serving=row["serving"])

    async def _provision_more(self, key: Key) -> None:
        """HostingFailed if a rule says that there is no capacity for the additional instances, or if the role may no
        longer read what they load.
        """
        for variant in (self._row(key)["serving"] or {"variants": ()})["variants"]:
            more = variant["desired_count"] - running_count(variant)
            if more > 0:
                instances, model = self._fleets.instances, variant["model"]
                await instances.provide(key, variant, more)
                if model is not None:
                    role = model.get("ExecutionRoleArn", "")
                    await instances.require_access(_place(key, variant), model, role)

    async def _delete(self, key: Key) -> None:
        over = self._row(key)["modified"] + DELETION
        await self._fleets.take_down_all(key)
        await self._context.clock.until(over)
        self._drop(key)

    async def _restart(self, key: Key) -> None:
        """Start its containers if they do not run: the emulator was restarted."""
        row = self._row(key)
        if key in self._fleets.routes or row["serving"] is None:
            return
        try:
            self._fleets.routes[key] = TrafficRoute(await self._fleets.start(key, row["serving"]))
        except HostingFailed as exc:
            self._change(key, failure=exc.reason)


def _place(key: Key, variant: Row) -> InstanceLocation:
    return InstanceLocation(*key, variant["name"], running_type(variant) or types_of(variant["params"])[0])


def _started_instances(deployment: Row, context: EmulatorContext) -> Row:
    for variant in (*deployment["variants"], *deployment["shadows"]):
        variant["resolved"] = context.clock.now()
    return deployment
