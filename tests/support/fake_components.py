"""SageMaker's inference components in memory: states that follow a clock, failures on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.component_settings import (
    AdapterSettings,
    ComponentPlace,
    ComponentSettings,
    ObservedComponent,
)
from lmi_deploy.domain.sagemaker.resource_settings import ListedEndpoint
from lmi_deploy.errors import CloudError, Conflict, NotFound
from tests.support.fake_hosting import AccountState, Component


@dataclass
class FakeComponents:
    """The port InferenceComponents. `failures.reasons` by a component's model: why its copies do not start."""

    state: AccountState

    def component(self, name: str) -> ObservedComponent | None:
        self.state.call("component")
        found = self.state.components.get(name)
        return found.observed if found else None

    def listed(self, endpoint: str = "") -> Iterator[ListedEndpoint]:
        self.state.call("listed")
        for name, component in sorted(self.state.components.items()):
            observed = component.observed
            if endpoint in ("", observed.settings.place.endpoint):
                yield ListedEndpoint(
                    name=name, status=observed.status, created=observed.created, modified=observed.modified
                )

    def create_component(self, name: str, settings: ComponentSettings, tags: Pairs) -> None:
        account = self.state
        account.call("create_component")
        if name in account.components:
            raise Conflict(f"inference component {name}: it already exists", hint="check it")
        place = settings.place
        endpoint = account.endpoints.get(place.endpoint)
        if endpoint is None:
            arn = account.arn("endpoint", place.endpoint)
            raise NotFound(f"inference component {name}: not found", hint="check it", arn=arn)
        if endpoint.observed.status not in ("InService", "Updating"):
            raise Conflict(f"inference component {name}: already in progress", hint="wait")
        account.require_visible("model", settings.model)
        now = account.clock.now().isoformat()
        started = ObservedComponent(
            name=name,
            arn=account.arn("inference-component", name),
            status="Creating",
            settings=settings,
            created=now,
            modified=now,
        )
        reason = account.failures.reasons.get(settings.model, "")
        ended = replace(started, status="Failed", reason=reason) if reason else _serving(started, settings)
        self._change(name, started, ended)
        account.tagged("inference-component", name, tags)
        account.failures.lose("create_component")

    def update_component(self, name: str, settings: ComponentSettings) -> None:
        account = self.state
        account.call("update_component")
        before = self._settled(name)
        if before.status != "InService":
            raise Conflict(f"inference component {name}: it cannot be updated", hint="delete it")
        account.require_visible("model", settings.model)
        now = account.clock.now().isoformat()
        started = replace(before, status="Updating", reason="", modified=now)
        reason = account.failures.reasons.get(settings.model, "")
        self._change(name, started, replace(before, reason=reason) if reason else _serving(started, settings))
        account.failures.lose("update_component")

    def create_adapter(self, endpoint: str, base: str, adapter: AdapterSettings, tags: Pairs) -> None:
        account, name = self.state, adapter.component
        account.call("create_adapter")
        if name in account.components:
            raise Conflict(f"inference component {name}: it already exists", hint="check it")
        if base not in account.components or endpoint not in account.endpoints:
            raise NotFound(f"inference component {base}: not found", hint="check it")
        now = account.clock.now().isoformat()
        place = ComponentPlace(endpoint=endpoint, copies=0, accelerators=0, memory_mb=0, cpus=0)
        started = ObservedComponent(
            name=name,
            arn=account.arn("inference-component", name),
            status="Creating",
            settings=ComponentSettings(model="", place=place, model_download=0, startup=0),
            base=base,
            artifact=adapter.artifact,
            created=now,
            modified=now,
        )
        reason = account.failures.reasons.get(adapter.artifact, "")
        self._change(
            name, started, replace(started, status="Failed" if reason else "InService", reason=reason)
        )
        account.tagged("inference-component", name, tags)
        account.failures.lose("create_adapter")

    def update_adapter(self, base: str, adapter: AdapterSettings) -> None:
        account, name = self.state, adapter.component
        account.call("update_adapter")
        before = self._settled(name)
        if before.status != "InService":
            raise Conflict(f"inference component {name}: it cannot be updated", hint="delete it")
        started = replace(before, status="Updating", reason="", modified=account.clock.now().isoformat())
        reason = account.failures.reasons.get(adapter.artifact, "")
        ended = replace(before, reason=reason) if reason else replace(before, artifact=adapter.artifact)
        self._change(name, started, ended)
        account.failures.lose("update_adapter")

    def set_copies(self, name: str, copies: int) -> None:
        account = self.state
        account.call("set_copies")
        before = self._settled(name)
        if before.status != "InService":
            raise Conflict(f"inference component {name}: it cannot be scaled", hint="delete it")
        now = account.clock.now().isoformat()
        settings = before.settings.with_copies(copies)
        started = replace(before, status="Updating", reason="", modified=now, settings=settings)
        reason = account.failures.reasons.get("more copies", "") if copies > before.copies else ""
        self._change(name, started, replace(before, reason=reason) if reason else _serving(started, settings))
        account.failures.lose("set_copies")

    def delete_component(self, name: str) -> None:
        account = self.state
        account.call("delete_component")
        if name in account.components and account.components[name].observed.status != "Deleting":
            observed = self._settled(name)
            if any(each.observed.base == name for each in account.components.values()):
                raise CloudError(f"inference component {name}: it has adapters", hint="delete them first")
            gone = account.clock.monotonic() + 5.0
            account.components[name] = Component(replace(observed, status="Deleting"), gone, None)
        account.failures.lose("delete_component")

    def _settled(self, name: str) -> ObservedComponent:
        if name not in self.state.components:
            raise NotFound(f"inference component {name}: not found", hint="check its name")
        observed = self.state.components[name].observed
        if observed.status in ("Creating", "Updating", "Deleting"):
            raise Conflict(f"inference component {name}: already in progress", hint="wait")
        return observed

    def _change(self, name: str, started: ObservedComponent, ended: ObservedComponent) -> None:
        clock, seconds = self.state.clock, 10.0 if started.base else self.state.startup
        late = (clock.now() + timedelta(seconds=seconds)).isoformat()
        then = replace(ended, modified=late)
        self.state.components[name] = Component(started, clock.monotonic() + seconds, then)


def _serving(observed: ObservedComponent, settings: ComponentSettings) -> ObservedComponent:
    return replace(observed, status="InService", settings=settings, copies=settings.place.copies)
