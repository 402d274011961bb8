"""Create models, endpoint configs and endpoints, and adopt existing ones: ours, and equal in all fields
that we sent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from lmi_deploy import __version__
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.actions import CreateEndpoint, CreateEndpointConfig, CreateModel
from lmi_deploy.domain.sagemaker.alarm_actions import SetAlarms
from lmi_deploy.domain.sagemaker.resource_settings import (
    TAG,
    TAG_BUCKET,
    TAG_EXPIRES,
    TAG_SCHEDULER,
    TAG_TTL,
    TAG_VERSION,
    ObservedEndpoint,
    ObservedEndpointConfig,
    ObservedModel,
)
from lmi_deploy.domain.sagemaker.tags import tags_of
from lmi_deploy.errors import Conflict, Refused
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker.eventual_consistency import Propagation
from lmi_deploy.targets.target import Outcome

Steps = Generator[Event, None, Outcome]
Found = ObservedModel | ObservedEndpointConfig | ObservedEndpoint
Observed = TypeVar("Observed", ObservedModel, ObservedEndpointConfig, ObservedEndpoint)
CREATED, ADOPTED = "made", "exists already"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCreator:
    """Creates the resources of one spec: SageMaker's, and CloudWatch's alarms."""

    spec: Spec
    cloud: Cloud
    clock: Clock
    propagation: Propagation

    def alarms(self, action: SetAlarms) -> Steps:
        """Their tags are the user's, and those by which `lmi gc` finds what is left."""
        yield from ()
        own = {TAG: self.spec.name, TAG_BUCKET: self.spec.cloud.bucket}
        tags = tuple(sorted({**dict(self.spec.cloud.tags), **own}.items()))
        self.cloud.alarms.write(action.endpoint, action.alarms, tags)
        return counted(len(action.alarms.rules), "alarm")

    def model(self, action: CreateModel) -> Steps:
        hosting, name = self.cloud.hosting, action.model
        try:
            yield from self.propagation.until_assumable(
                action.settings.role,
                lambda: hosting.create_model(name, action.settings, self._tags()),
                key=action.key,
            )
        except Conflict:
            found = yield from self._wait_until_visible(lambda: hosting.model(name), action)
            return self._adopted("model", name, found, found and found.settings == action.settings)
        self.propagation.created.add(name)
        return CREATED

    def endpoint_config(self, action: CreateEndpointConfig) -> Steps:
        hosting, name = self.cloud.hosting, action.config
        try:
            yield from self.propagation.until_found(
                "model",
                action.settings.model,
                lambda: hosting.create_endpoint_config(name, action.settings, self._tags()),
                key=action.key,
                also=action.settings.candidate.model if action.settings.candidate else "",
            )
        except Conflict:
            found = yield from self._wait_until_visible(lambda: hosting.endpoint_config(name), action)
            equal = found and found.settings == action.settings
            return self._adopted("endpoint config", name, found, equal)
        self.propagation.created.add(name)
        return CREATED

    def endpoint(self, action: CreateEndpoint) -> Steps:
        hosting, name = self.cloud.hosting, action.endpoint
        try:
            yield from self.propagation.until_found(
                "endpoint-config",
                action.config,
                lambda: hosting.create_endpoint(name, action.config, self._tags(expires=True)),
                key=action.key,
            )
        except Conflict:
            found = yield from self._wait_until_visible(lambda: hosting.endpoint(name), action)
            equal = found and action.config in (found.config, found.pending)
            return self._adopted("endpoint", name, found, equal)
        return CREATED

    def _wait_until_visible(
        self, observe: Callable[[], Observed | None], action: Action
    ) -> Generator[Event, None, Observed | None]:
        """Wait until a resource that SageMaker reports as existing is visible."""
        return (yield from self.propagation.until_visible(observe, what=action.subject, key=action.key))

    def _adopted(self, kind: str, name: str, found: Found | None, equal: object) -> Outcome:
        """Checked by our tag and every field that was sent; Refused for any other resource of this name."""
        owner = dict(self.cloud.hosting.tags(found.arn)).get(TAG) if found else None
        if found is not None and equal and owner == self.spec.name:
            self.propagation.created.add(name)
            return ADOPTED
        why = (
            "was not created by lmi"
            if owner != self.spec.name
            else "its settings do not match the digest in its name"
        )
        raise Refused(
            f"{name}: a {kind} of that name exists and {why}",
            hint="it was not changed. Check it, or choose another name in the recipe",
        )

    def _tags(self, *, expires: bool = False) -> Pairs:
        more = {TAG_VERSION: __version__}
        if expires and self.spec.cloud.ttl:
            more |= dict(expiry_tags(self.clock, self.spec.cloud.ttl))
            if self.spec.cloud.scheduler_role:
                more[TAG_SCHEDULER] = self.spec.cloud.scheduler_role
        return tuple(sorted({**dict(tags_of(self.spec)), **more}.items()))


def expiry_tags(clock: Clock, ttl: int) -> Pairs:
    """So many seconds from now, and the seconds."""
    expires = (clock.now() + timedelta(seconds=ttl)).isoformat(timespec="seconds")
    return ((TAG_EXPIRES, expires), (TAG_TTL, str(ttl)))
