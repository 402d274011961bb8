"""The states of an inference component, and the container that serves it. Of its copies one is real."""

from __future__ import annotations

import asyncio
from typing import Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed
from lmi_deploy.emulator.hosting.instances import GRACE, HostingInstance, InstanceLocation, Instances
from lmi_deploy.emulator.hosting.tasks import Key, Records, Tasks
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.naming import ENDPOINT, INFERENCE_COMPONENT

DELETION: Final = 5.0
SCALING: Final = 30.0


class Components:
    """One task for each inference component that is changing."""

    def __init__(self, context: EmulatorContext, made_by: Instances) -> None:
        self._context = context
        self._instances = made_by
        self._tasks = Tasks()
        self._records = Records(context, INFERENCE_COMPONENT)
        self.running: dict[Key, HostingInstance] = {}

    def begin(self, region: str, name: str) -> None:
        self._tasks.begin((region, name), f"inference component {name}", lambda: self._run((region, name)))

    def resume(self) -> None:
        for key in self._records.all():
            self.begin(*key)

    async def stop(self, *, grace: float) -> None:
        """End every container; the records stay as they are."""
        await self._tasks.stop()
        await asyncio.gather(*(self._take_down(key, grace=grace) for key in list(self.running)))

    async def _run(self, key: Key) -> None:
        match self._records.get(key)["status"]:
            case "Creating":
                await self._create(key)
            case "Updating":
                await self._update(key)
            case "Deleting":
                await self._delete(key)
            case "InService":
                await self._restart(key)
            case _:
                pass  # Failed: nothing runs

    async def _create(self, key: Key) -> None:
        row = self._records.get(key)
        try:
            await self._start(key, row["spec"])
        except HostingFailed as exc:
            self._records.change(key, status="Failed", failure=exc.reason)
            return
        self._records.change(
            key, status="InService", copies=row["desired"], resolved=self._context.clock.now()
        )

    async def _update(self, key: Key) -> None:
        """A new specification beside the old one; if it does not start, the old one stays."""
        row = self._records.get(key)
        spec, failure = row["pending"] or row["spec"], None
        try:
            await self._change(key, row, spec)
        except HostingFailed as exc:
            spec, failure = row["spec"], exc.reason
        copies = row["desired"] if failure is None else row["copies"]
        self._records.change(
            key, status="InService", spec=spec, pending=None, copies=copies, desired=copies, failure=failure
        )

    async def _change(self, key: Key, row: Row, spec: Row) -> None:
        if row["desired"] == 0:
            await self._take_down(key)
        elif row["pending"] is not None or key not in self.running:
            await self._start(key, spec)
        else:
            await self._context.clock.sleep(SCALING)

    async def _delete(self, key: Key) -> None:
        over = self._records.get(key)["modified"] + DELETION
        await self._take_down(key)
        await self._context.clock.until(over)
        self._records.drop(key)

    async def _restart(self, key: Key) -> None:
        row = self._records.get(key)
        try:
            if key not in self.running:
                await self._start(key, row["spec"])
        except HostingFailed as exc:
            self._records.change(key, status="Failed", failure=exc.reason)

    async def _start(self, key: Key, spec: Row) -> None:
        """The new one up, then the old one down. Adapters and components without copies have none."""
        row = self._records.get(key)
        if spec["model"] is None or row["desired"] == 0:
            return
        endpoint = self._context.table(ENDPOINT.table, key[0]).get(row["endpoint"])
        if endpoint is None or endpoint["serving"] is None:
            raise HostingFailed(f"Endpoint {row['endpoint']} is not in service.")
        serving = endpoint["serving"]
        (existing,) = (variant for variant in serving["variants"] if variant["name"] == row["variant"])
        kind = existing["params"].get("InstanceType", "any")
        place = InstanceLocation(key[0], row["endpoint"], row["variant"], kind, component=key[1])
        variant = {"model": spec["model"], "params": spec["told"].get("StartupParameters", {})}
        role = spec["model"].get("ExecutionRoleArn") or serving["role"]
        new = await self._instances.start(place, variant, role=role, started=0.0)
        old, self.running[key] = self.running.get(key), new
        if old is not None:
            await self._instances.take_down(old)

    async def _take_down(self, key: Key, *, grace: float = GRACE) -> None:
        instance = self.running.pop(key, None)
        if instance is not None:
            await self._instances.take_down(instance, grace=grace)
