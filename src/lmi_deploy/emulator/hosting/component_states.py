"""The states of an inference component, and the container that serves it. Of its copies one is real."""

from __future__ import annotations

import asyncio
from typing import Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.adapter_states import Adapters, base_of, identifier_of
from lmi_deploy.emulator.hosting.component_placement import require_room
from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed
from lmi_deploy.emulator.hosting.instances import (
    GRACE,
    PROVISION,
    HostingInstance,
    InstanceLocation,
    Instances,
)
from lmi_deploy.emulator.hosting.managed_instances import add_instances
from lmi_deploy.emulator.hosting.resource_tasks import Key, ResourceTasks
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT, INFERENCE_COMPONENT

DELETION: Final = 5.0
SCALING: Final = 30.0


class Components(ResourceTasks):
    def __init__(self, context: EmulatorContext, instances: Instances) -> None:
        super().__init__(context, INFERENCE_COMPONENT)
        self._instances = instances
        self.running: dict[Key, HostingInstance] = {}
        self._adapters = Adapters(context, self.running)

    async def stop(self, *, grace: float) -> None:
        """End every task and every container; the records stay as they are."""
        await self.end_tasks()
        await asyncio.gather(*(self._take_down(key, grace=grace) for key in list(self.running)))

    async def _run(self, key: Key) -> None:
        match self._row(key)["status"]:
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
        row = self._row(key)
        try:
            if base_of(row["spec"]):
                await self._load_adapter(key, row["spec"])
            await self._start(key, row["spec"])
        except HostingFailed as exc:
            self._change(key, status="Failed", failure=exc.reason)
            return
        self._change(key, status="InService", copies=row["desired"], resolved=self._context.clock.now())

    async def _update(self, key: Key) -> None:
        """A new specification beside the old one; if it does not start, the old one stays."""
        row = self._row(key)
        spec, failure = row["pending"] or row["spec"], None
        try:
            if base_of(spec):
                await self._load_adapter(key, spec)
            elif row["desired"] == 0:
                await self._take_down(key)
            elif row["pending"] is not None or key not in self.running:
                if (
                    row["pending"] is not None
                ):  # a change takes its time, also where no container is started for it
                    await self._context.clock.sleep(SCALING)
                await self._start(key, spec)
            else:
                started = self._context.clock.now()
                require_room(self._context, key, spec, self._variant(key)[1])
                if spec["model"] is not None:
                    place = InstanceLocation(key[0], row["endpoint"], row["variant"], "any", component=key[1])
                    role = spec["model"].get("ExecutionRoleArn") or self._variant(key)[0]["role"]
                    await self._instances.require_access(place, spec["model"], role)
                added = add_instances(self._context, key[0], row["endpoint"])
                await self._context.clock.until(started + SCALING + PROVISION * added)
        except HostingFailed as exc:
            spec, failure = row["spec"], exc.reason
        copies = row["desired"] if failure is None else row["copies"]
        self._change(
            key, status="InService", spec=spec, pending=None, copies=copies, desired=copies, failure=failure
        )

    async def _delete(self, key: Key) -> None:
        over = self._row(key)["modified"] + DELETION
        await self._take_down(key)
        row = self._row(key)
        if base_of(row["spec"]):
            await self._adapters.unload(key[0], row["spec"], identifier_of(row, key[1]))
        await self._context.clock.until(over)
        self._drop(key)

    async def _restart(self, key: Key) -> None:
        row = self._row(key)
        try:
            if key not in self.running:
                await self._start(key, row["spec"])
        except HostingFailed as exc:
            self._change(key, status="Failed", failure=exc.reason)

    async def _start(self, key: Key, spec: Row) -> None:
        """The new one up, then the old one down. Adapters and components without copies have none."""
        row = self._row(key)
        if spec["model"] is None or row["desired"] == 0:
            return
        serving, existing = self._variant(key)
        require_room(self._context, key, spec, existing)
        kind = existing["params"].get("InstanceType", "any")
        place = InstanceLocation(key[0], row["endpoint"], row["variant"], kind, component=key[1])
        variant = {"model": spec["model"], "params": spec["description"].get("StartupParameters", {})}
        role = spec["model"].get("ExecutionRoleArn") or serving["role"]
        added = add_instances(self._context, key[0], row["endpoint"])
        started = self._context.clock.now() if added else 0.0
        new = await self._instances.start(place, variant, role=role, started=started)
        try:
            await self._adapters.load_all(key, new, role=role)
        except BaseException:
            await self._instances.take_down(new, grace=0.0)
            raise
        old, self.running[key] = self.running.get(key), new
        if old is not None:
            await self._instances.take_down(old)

    async def _load_adapter(self, key: Key, spec: Row) -> None:
        """The new version, then the end of the one before."""
        before = identifier_of(self._row(key), key[1])
        identifier = await self._adapters.load(key, spec, role=self._role(key, spec))
        self._change(key, identifier=identifier)
        await self._adapters.unload(key[0], spec, before)

    def _role(self, key: Key, spec: Row) -> str:
        """Of an adapter: that of its base's model, else the endpoint's."""
        base = self._context.table(INFERENCE_COMPONENT.table, key[0]).get(base_of(spec))
        model = (base["spec"]["model"] if base else None) or {}
        return str(model.get("ExecutionRoleArn") or self._variant(key)[0]["role"])

    def _variant(self, key: Key) -> tuple[Row, Row]:
        """The endpoint's deployment, and the variant of it that the component is placed on."""
        row = self._row(key)
        endpoint = self._context.table(ENDPOINT.table, key[0]).get(row["endpoint"])
        if endpoint is None or endpoint["serving"] is None:
            raise HostingFailed(f"Endpoint {row['endpoint']} is not in service.")
        serving = endpoint["serving"]
        (existing,) = (variant for variant in serving["variants"] if variant["name"] == row["variant"])
        return serving, existing

    async def _take_down(self, key: Key, *, grace: float = GRACE) -> None:
        instance = self.running.pop(key, None)
        if instance is not None:
            await self._instances.take_down(instance, grace=grace)
