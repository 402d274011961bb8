"""Models on a shared endpoint: the endpoint and its inference components created, updated, waited for and deleted."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.record import command_for
from lmi_deploy.domain.sagemaker.actions import DeleteEndpoint
from lmi_deploy.domain.sagemaker.adapter_actions import (
    CreateAdapterComponent,
    DeleteAdapterComponent,
    UpdateAdapterComponent,
)
from lmi_deploy.domain.sagemaker.component_actions import (
    AwaitInferenceComponent,
    DeleteInferenceComponent,
    DeleteSharedEndpoint,
    SetCopyCount,
    UpdateInferenceComponent,
)
from lmi_deploy.domain.sagemaker.component_settings import ObservedComponent
from lmi_deploy.domain.sagemaker.resource_settings import SETTLING, TAG, TAG_SHARED
from lmi_deploy.errors import CloudError, Conflict, DeployFailed, Overdue
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker import endpoint_waiter
from lmi_deploy.targets.sagemaker.endpoint_waiter import LogFollower, overdue_hint, poll_intervals
from lmi_deploy.targets.sagemaker.eventual_consistency import Propagation, arn_region
from lmi_deploy.targets.sagemaker.perform.instance_count import changed_meanwhile
from lmi_deploy.targets.target import Outcome, Perform

Steps = Generator[Event, None, Outcome]
ComponentChange = UpdateInferenceComponent | SetCopyCount | CreateAdapterComponent | UpdateAdapterComponent
_LOST_AFTER: Final = 5400.0
"""Seconds for a component to settle, and then to go."""
_NO_ROOM: Final = "not enough hardware resources"
"""In a FailureReason (aws/sagemaker-python-sdk issue 5558)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPerformers:
    """Those that need no spec."""

    cloud: Cloud
    clock: Clock

    def performers(self) -> Perform:
        return {
            UpdateInferenceComponent: self.update,
            AwaitInferenceComponent: self.wait,
            SetCopyCount: self.set_copies,
            DeleteInferenceComponent: self.delete,
            DeleteSharedEndpoint: self.delete_shared,
        }

    def update(self, action: UpdateInferenceComponent) -> Steps:
        """One UpdateInferenceComponent, once no other change is in progress."""
        observed = yield from settled(action, cloud=self.cloud, clock=self.clock)
        if observed is None or observed.status != "InService":
            raise DeployFailed(
                f"{action.component}: the inference component is {observed.status if observed else 'deleted'} and "
                "cannot be updated",
                hint="run `lmi up` to create it again",
            )
        settings = action.settings_at(observed.requested_copies)
        if observed.settings == settings:
            return "updated before"
        propagation = Propagation(cloud=self.cloud, clock=self.clock)
        yield from propagation.until_found(
            "model",
            settings.model,
            lambda: self.cloud.components.update_component(action.component, settings),
            key=action.key,
        )
        return "started"

    def wait(self, action: AwaitInferenceComponent) -> Steps:
        observed = self._require(action.component)
        since = observed.created if observed.status in ("Creating", "Failed") else observed.modified
        printed = LogFollower(self.cloud, observed.name, action.key, since, component=True)
        started, interval = self.clock.monotonic(), poll_intervals()
        while observed.status in SETTLING:
            yield from printed.new_lines()
            waited = self.clock.monotonic() - started
            if waited > action.timeout:
                raise Overdue(
                    f"{observed.name} is still {observed.status} after {waited / 60:.0f} min",
                    hint=overdue_hint(observed.name, self.cloud.caller.region),
                    details=tuple(printed.last),
                )
            yield Progress(
                key=action.key, done=round(waited, 1), total=None, unit="seconds", note=_note(observed)
            )
            self.clock.sleep(next(interval))
            observed = self._require(action.component)
        yield from printed.new_lines()
        return _verdict(observed, action, tuple(printed.last))

    def set_copies(self, action: SetCopyCount) -> Steps:
        """Once no other change is in progress. Requests nothing if the number was requested before."""
        found = yield from settled(action, cloud=self.cloud, clock=self.clock)
        if found and found.status == "InService" and found.settings.place.copies != action.copies:
            self.cloud.components.set_copies(action.component, action.copies)
        started, interval = self.clock.monotonic(), poll_intervals()
        observed = self._require(action.component)
        while _is_short(observed, action.copies):
            waited = self.clock.monotonic() - started
            if waited > action.timeout:
                raise Overdue(
                    f"{observed.name} after {waited / 60:.0f} min is still {_note(observed)}",
                    hint="run the same command again to wait longer",
                )
            yield Progress(
                key=action.key, done=round(waited, 1), total=None, unit="seconds", note=_note(observed)
            )
            self.clock.sleep(next(interval))
            observed = self._require(action.component)
        serve = f"{counted(observed.copies, 'copy', 'copies')} on {observed.settings.place.endpoint}"
        if observed.status == "InService" and observed.copies == action.copies:
            return serve
        if (
            observed.status == "InService"
            and not observed.reason
            and observed.settings.place.copies == observed.copies
        ):
            raise changed_meanwhile(
                observed.name, self.cloud.caller.region, counted(action.copies, "copy", "copies"), serve
            )
        why = f": {observed.reason}" if observed.reason else ""
        raise DeployFailed(
            f"{observed.name}: it did not get {counted(action.copies, 'copy', 'copies')}; {serve} as before{why}",
            hint=_hint(observed),
        )

    def delete(self, action: DeleteInferenceComponent | DeleteAdapterComponent) -> Steps:
        """SageMaker cannot delete a component that is being created or updated: wait for that first."""
        started, interval, requested = self.clock.monotonic(), poll_intervals(), False
        while (observed := self.cloud.components.component(action.component)) is not None:
            waited = self.clock.monotonic() - started
            _require_time(observed, waited)
            if not requested and observed.status != "Deleting":
                requested = self._request_deletion(observed)
            note = "Deleting" if requested else f"{observed.status}: SageMaker allows the deletion after that"
            yield Progress(key=action.key, done=round(waited, 1), total=None, unit="seconds", note=note)
            self.clock.sleep(next(interval))
        return "gone"

    def delete_shared(self, action: DeleteSharedEndpoint) -> Steps:
        """Looks again just before, once models that are being deleted are gone: of two `lmi down` at once, one must see
        an endpoint without models. SageMaker refuses to delete an endpoint with components, so that a model which
        comes in between keeps its endpoint.
        """
        if users := (yield from self._users(action)):
            return f"it stays: {users}"
        observed = self.cloud.hosting.endpoint(action.endpoint)
        tags = dict(self.cloud.hosting.tags(observed.arn)) if observed else {}
        if observed is not None and not (tags.get(TAG) == action.endpoint and tags.get(TAG_SHARED)):
            return "it stays: it has lost the tags by which it is lmi's"
        try:
            yield from endpoint_waiter.delete(
                DeleteEndpoint(endpoint=action.endpoint), cloud=self.cloud, clock=self.clock
            )
        except (CloudError, Conflict):
            if users := (yield from self._users(action)):
                return f"it stays: {users}"
            raise
        for config in action.configs:
            self.cloud.hosting.delete_endpoint_config(config)
        return "gone"

    def _users(self, action: DeleteSharedEndpoint) -> Generator[Event, None, str]:
        """Each is described: the list may still have those that are gone."""
        started, interval = self.clock.monotonic(), poll_intervals()
        while True:
            listed = [
                self.cloud.components.component(one.name)
                for one in self.cloud.components.listed(action.endpoint)
            ]
            found = [one for one in listed if one is not None]
            names = [one.name for one in found if one.status != "Deleting"]
            if names or not found:
                return f"{', '.join(names)} {'use' if len(names) > 1 else 'uses'} it" if names else ""
            waited = self.clock.monotonic() - started
            _require_time(found[0], waited)
            note = f"{found[0].name} is being deleted"
            yield Progress(key=action.key, done=round(waited, 1), total=None, unit="seconds", note=note)
            self.clock.sleep(next(interval))

    def _request_deletion(self, observed: ObservedComponent) -> bool:
        if observed.status in SETTLING:
            return False
        self.cloud.components.delete_component(observed.name)
        return True

    def _require(self, name: str) -> ObservedComponent:
        observed = self.cloud.components.component(name)
        if observed is None:
            raise DeployFailed(
                f"{name}: another process deleted the inference component",
                hint="run `lmi up` to create it again",
            )
        return observed


def settled(
    action: ComponentChange, *, cloud: Cloud, clock: Clock, limit: float = _LOST_AFTER
) -> Generator[Event, None, ObservedComponent | None]:
    """The component once no change of it is in progress; None if it does not exist. Overdue after `limit` seconds."""
    started, interval = clock.monotonic(), poll_intervals()
    while (observed := cloud.components.component(action.component)) and observed.status in SETTLING:
        waited = clock.monotonic() - started
        _require_time(observed, waited, limit)
        yield Progress(
            key=action.key, done=round(waited, 1), total=None, unit="seconds", note=observed.status
        )
        clock.sleep(next(interval))
    return observed


def has_scaled_to_zero(cloud: Cloud, name: str, *, component: bool) -> bool:
    """Whether a model on a shared endpoint has no copy, or an endpoint no instance, so that a request starts one."""
    if component:
        model = cloud.components.component(name)
        return model is not None and model.status == "InService" and not model.requested_copies
    endpoint = cloud.hosting.endpoint(name)
    return endpoint is not None and endpoint.status == "InService" and not endpoint.desired_count


def _note(observed: ObservedComponent) -> str:
    copies = counted(observed.settings.place.copies, "copy", "copies")
    return f"{observed.status}: {observed.copies} of {copies}, on {observed.settings.place.endpoint}"


def _is_short(observed: ObservedComponent, copies: int) -> bool:
    """Whether a change is in progress, or about to begin: the request was accepted, and so many do not serve yet."""
    requested = observed.status == "InService" and observed.settings.place.copies == copies
    return observed.status in SETTLING or (requested and observed.copies != copies)


def _verdict(observed: ObservedComponent, action: AwaitInferenceComponent, lines: tuple[str, ...]) -> Outcome:
    settings = observed.settings.with_copies(action.copies) if action.copies else observed.settings
    config = settings.name(observed.name)
    if observed.status == "InService" and config == action.config:
        return f"{counted(observed.copies, 'copy', 'copies')} on {observed.settings.place.endpoint}"
    printed = lines or ("(no output of its containers in CloudWatch)",)
    details = (*printed, *((f"FailureReason: {observed.reason}",) if observed.reason else ()))
    why = f": {observed.reason}" if observed.reason else ""
    if observed.status == "InService":
        what = f"{observed.name}: the update to {action.config} failed; {config} serves{why}"
    else:
        what = f"{observed.name}: the inference component is {observed.status}{why}"
    raise DeployFailed(what, hint=_hint(observed), details=details)


def _hint(observed: ObservedComponent) -> str:
    if _NO_ROOM in observed.reason:
        return (
            "an update starts new copies before it ends the old ones, and needs room for them: use fewer copies, ask "
            "for less (endpoint.component), or set a larger endpoint.count"
        )
    region = arn_region(observed.arn)
    return (
        f"read the container's last lines above; `{command_for('logs', observed.name, region)}` shows the whole log, "
        f"`lmi up` tries again, `{command_for('down', observed.name, region)}` deletes it"
    )


def _require_time(observed: ObservedComponent, waited: float, limit: float = _LOST_AFTER) -> None:
    if waited > limit:
        raise Overdue(
            f"{observed.name} is still {observed.status} after {waited / 60:.0f} min",
            hint="run the same command again; if it stays in this state, contact AWS support",
        )
