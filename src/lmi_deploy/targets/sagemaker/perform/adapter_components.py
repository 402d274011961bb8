"""The adapters of a model on a shared endpoint: created, updated and deleted as inference components."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from lmi_deploy import __version__
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.record import command_for
from lmi_deploy.domain.sagemaker.adapter_actions import (
    CreateAdapterComponent,
    DeleteAdapterComponent,
    UpdateAdapterComponent,
)
from lmi_deploy.domain.sagemaker.component_settings import AdapterSettings, ObservedComponent
from lmi_deploy.domain.sagemaker.resource_settings import TAG, TAG_VERSION
from lmi_deploy.errors import Conflict, DeployFailed, Refused
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker.eventual_consistency import arn_region
from lmi_deploy.targets.sagemaker.perform.components import ComponentPerformers, settled
from lmi_deploy.targets.sagemaker.perform.resource_creation import ADOPTED, CREATED
from lmi_deploy.targets.target import Outcome, Perform

Steps = Generator[Event, None, Outcome]
Change = CreateAdapterComponent | UpdateAdapterComponent
_LIMIT: Final = 1800.0
"""Seconds for an adapter to settle: SageMaker downloads some megabytes, and each copy of the model loads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterPerformers:
    """Those that need no spec."""

    cloud: Cloud
    clock: Clock

    @property
    def table(self) -> Perform:
        return {
            CreateAdapterComponent: self.create,
            UpdateAdapterComponent: self.update,
            DeleteAdapterComponent: ComponentPerformers(cloud=self.cloud, clock=self.clock).delete,
        }

    def create(self, action: CreateAdapterComponent) -> Steps:
        """One that exists is taken if it has our tag: its reply was lost."""
        outcome = CREATED
        try:
            self.cloud.components.create_adapter(
                action.endpoint, action.base, _settings(action), (*action.tags, (TAG_VERSION, __version__))
            )
        except Conflict as error:
            outcome = self._adopted(action, error)
        yield from self._in_service(action)
        return outcome

    def update(self, action: UpdateAdapterComponent) -> Steps:
        """One UpdateInferenceComponent, once no other change is in progress."""
        observed = yield from self._settled(action)
        if observed.status != "InService":
            raise _failed(observed)
        if observed.artifact == action.artifact:
            return "updated before"
        self.cloud.components.update_adapter(action.base, _settings(action))
        yield from self._in_service(action)
        return "updated"

    def _adopted(self, action: CreateAdapterComponent, error: Conflict) -> Outcome:
        found = self.cloud.components.component(action.component)
        if found is None:
            raise error
        owner = dict(self.cloud.hosting.tags(found.arn)).get(TAG)
        is_ours = owner == dict(action.tags)[TAG]
        if is_ours and (found.base, found.artifact) == (action.base, action.artifact):
            return ADOPTED
        why = "has other settings" if is_ours else "was not created by lmi"
        raise Refused(
            f"{action.component}: an inference component of that name exists and {why}",
            hint="it was not changed. Check it, or choose another name for the adapter",
        )

    def _in_service(self, action: Change) -> Generator[Event, None, None]:
        observed = yield from self._settled(action)
        if observed.status != "InService" or observed.artifact != action.artifact:
            raise _failed(observed)

    def _settled(self, action: Change) -> Generator[Event, None, ObservedComponent]:
        observed = yield from settled(action, cloud=self.cloud, clock=self.clock, limit=_LIMIT)
        if observed is None:
            raise DeployFailed(
                f"{action.component}: another process deleted the adapter",
                hint="run `lmi up` to create it again",
            )
        return observed


def _settings(action: Change) -> AdapterSettings:
    return AdapterSettings(component=action.component, artifact=action.artifact)


def _failed(observed: ObservedComponent) -> DeployFailed:
    why = f": {observed.reason}" if observed.reason else ""
    what = f"the adapter {observed.name} is {observed.status}{why}"
    if observed.status == "InService":
        what = f"the update of the adapter {observed.name} failed{why}; the earlier one serves"
    logs = command_for("logs", observed.base, arn_region(observed.arn))
    return DeployFailed(
        what,
        hint=f"read the model's log (`{logs}`), correct the adapter, and run `lmi up` again; the model and its other "
        "adapters serve on",
        details=(f"FailureReason: {observed.reason}",) if observed.reason else (),
    )
