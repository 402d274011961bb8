"""Create what a model on a shared endpoint needs: the endpoint, unless another deployment did, and the component."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from lmi_deploy import __version__
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.actions import AwaitService
from lmi_deploy.domain.sagemaker.component_actions import CreateInferenceComponent, CreateSharedEndpoint
from lmi_deploy.domain.sagemaker.resource_settings import (
    TAG,
    TAG_BUCKET,
    TAG_SHARED,
    TAG_VERSION,
    ObservedEndpoint,
)
from lmi_deploy.domain.sagemaker.tags import tags_of
from lmi_deploy.errors import Conflict, NotFound, Refused, SharedEndpointGone
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.targets.sagemaker.endpoint_waiter import EndpointWaiter, poll_intervals
from lmi_deploy.targets.sagemaker.eventual_consistency import Propagation
from lmi_deploy.targets.sagemaker.perform.resource_creation import ADOPTED, CREATED, expiry_tags
from lmi_deploy.targets.target import Outcome

Steps = Generator[Event, None, Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEndpointCreator:
    spec: Spec
    cloud: Cloud
    clock: Clock
    propagation: Propagation
    services: Callable[[], BucketServices]

    def endpoint(self, action: CreateSharedEndpoint) -> Steps:
        """Its config, the endpoint, and the wait. An endpoint that another deployment is creating is waited for."""
        outcome = CREATED
        if (yield from self._until_deleted(action)) is None:
            yield from self._create_endpoint_config(action)
            outcome = yield from self._endpoint(action)
        else:
            outcome = ADOPTED
        self._require_shared(action.endpoint)
        observed = self.cloud.hosting.endpoint(action.endpoint)
        config = observed.config if observed else action.config
        waiting = EndpointWaiter(
            cloud=self.cloud,
            depot=self.services(),
            clock=self.clock,
            action=AwaitService(endpoint=action.endpoint, config=config, timeout=action.timeout),
        )
        yield from waiting.run()
        return outcome

    def component(self, action: CreateInferenceComponent) -> Steps:
        name, place = action.component, action.settings.place
        try:
            yield from self.propagation.until_found(
                "model",
                action.settings.model,
                lambda: self.cloud.components.create_component(name, action.settings, self._component_tags()),
                key=action.key,
            )
        except NotFound as error:
            if f":endpoint/{place.endpoint}" not in error.arn:
                raise
            raise self._endpoint_gone(name, place.endpoint) from error
        except Conflict as error:
            return self._adopted(action, error)
        return CREATED

    def _adopted(self, action: CreateInferenceComponent, error: Conflict) -> Outcome:
        """One whose reply was lost: checked by our tag and every setting."""
        name, place = action.component, action.settings.place
        found = self.cloud.components.component(name)
        if found is None:  # the endpoint refused it
            endpoint = self.cloud.hosting.endpoint(place.endpoint)
            if endpoint is None or endpoint.status == "Deleting":
                raise self._endpoint_gone(name, place.endpoint) from error
            raise error
        owner = dict(self.cloud.hosting.tags(found.arn)).get(TAG)
        if owner == self.spec.name and found.settings == action.settings:
            return ADOPTED
        why = "has other settings" if owner == self.spec.name else "was not created by lmi"
        raise Refused(
            f"{name}: an inference component of that name exists and {why}",
            hint="it was not changed. Check it, or choose another name in the recipe",
        )

    def _endpoint_gone(self, name: str, endpoint: str) -> SharedEndpointGone:
        return SharedEndpointGone(
            f"{name}: the shared endpoint {endpoint} is being deleted: another deployment on it was the last one",
            hint="run the same command again: it creates the endpoint again",
        )

    def _create_endpoint_config(self, action: CreateSharedEndpoint) -> Generator[Event, None, None]:
        hosting = self.cloud.hosting
        try:
            hosting.create_endpoint_config(action.config, action.settings, self._tags(action.endpoint))
        except Conflict:
            found = yield from self.propagation.until_visible(
                lambda: hosting.endpoint_config(action.config), what=action.config, key=action.key
            )
            # Its name has the digest of its settings, and another deployment may have created it.
            if found is None or found.settings != action.settings:
                raise
        self.propagation.created.add(action.config)

    def _endpoint(self, action: CreateSharedEndpoint) -> Steps:
        hosting = self.cloud.hosting
        try:
            yield from self.propagation.until_found(
                "endpoint-config",
                action.config,
                lambda: hosting.create_endpoint(action.endpoint, action.config, self._tags(action.endpoint)),
                key=action.key,
            )
        except Conflict:
            return ADOPTED
        return CREATED

    def _until_deleted(self, action: CreateSharedEndpoint) -> Generator[Event, None, ObservedEndpoint | None]:
        started, interval = self.clock.monotonic(), poll_intervals()
        while (observed := self.cloud.hosting.endpoint(action.endpoint)) is not None:
            if observed.status != "Deleting":
                return observed
            waited = round(self.clock.monotonic() - started, 1)
            note = "Deleting: it is created again after that"
            yield Progress(key=action.key, done=waited, total=None, unit="seconds", note=note)
            self.clock.sleep(next(interval))
        return None

    def _require_shared(self, name: str) -> None:
        """Refused for an endpoint of that name that appeared since the plan and is no shared one."""
        observed = self.cloud.hosting.endpoint(name)
        tags = dict(self.cloud.hosting.tags(observed.arn)) if observed else {}
        if observed is not None and not (tags.get(TAG) == name and tags.get(TAG_SHARED)):
            raise Refused(
                f"{name}: an endpoint of that name exists and is not a shared endpoint of lmi",
                hint="it was not changed. Choose another name for endpoint.share",
            )

    def _tags(self, endpoint: str) -> Pairs:
        """Its own name, so that it is found without any deployment on it; and who created it."""
        own = {
            TAG: endpoint,
            TAG_SHARED: self.spec.name,
            TAG_BUCKET: self.spec.cloud.bucket,
            TAG_VERSION: __version__,
        }
        return tuple(sorted({**dict(self.spec.cloud.tags), **own}.items()))

    def _component_tags(self) -> Pairs:
        more = {TAG_VERSION: __version__}
        if self.spec.cloud.ttl:
            more |= dict(expiry_tags(self.clock, self.spec.cloud.ttl))
        return tuple(sorted({**dict(tags_of(self.spec)), **more}.items()))
