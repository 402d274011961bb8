"""Target `sagemaker`: endpoints of one account, in the region and the bucket that a deployment names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import ClassVar

from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_list import ListedDeployments, OrphanedDeployment
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import CloudFacts, Facts
from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.domain.recipe_keys import AUTO_INSTANCE, Recipe
from lmi_deploy.domain.record import DeploymentRef, Generation, Record
from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.domain.sagemaker.resource_settings import TAG_EXPIRES
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.domain.status_details import StatusDetails
from lmi_deploy.errors import AccessError, NotFound
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.ports.deployment_index import DeploymentIndex
from lmi_deploy.ports.image_builder import ImageBuilder
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.source import Source
from lmi_deploy.targets.sagemaker import (
    costs,
    deployment_access,
    observed_weights,
    running_costs,
    status_details,
)
from lmi_deploy.targets.sagemaker import observe as sagemaker_observe
from lmi_deploy.targets.sagemaker import status as sagemaker_status
from lmi_deploy.targets.sagemaker.async_requests import AsyncRequests
from lmi_deploy.targets.sagemaker.deployed_instance import deployed_instance, running_instances
from lmi_deploy.targets.sagemaker.lost_ownership_tag import require_endpoint, require_ownership_tag
from lmi_deploy.targets.sagemaker.notices import observed_notices, plan_notices
from lmi_deploy.targets.sagemaker.observed_components import shared_endpoint, with_wanted_count
from lmi_deploy.targets.sagemaker.observed_scaling import with_scaling
from lmi_deploy.targets.sagemaker.orphans import Orphans
from lmi_deploy.targets.sagemaker.perform.action_dispatch import SageMakerPerformers
from lmi_deploy.targets.sagemaker.plan import deploy, instance_count
from lmi_deploy.targets.sagemaker.plan.rollback import candidates, rollback
from lmi_deploy.targets.sagemaker.plan.storage_actions import transfer_job_place
from lmi_deploy.targets.sagemaker.plan.summary import during_update, estimate, generation, serving
from lmi_deploy.targets.sagemaker.plan.teardown import kept, require_unshared, teardown, weights_named
from lmi_deploy.targets.sagemaker.plan.wait import wait_plan
from lmi_deploy.targets.sagemaker.preflight import preflight
from lmi_deploy.targets.sagemaker.request_examples import request_examples
from lmi_deploy.targets.sagemaker.resolve import place_of
from lmi_deploy.targets.sagemaker.role_access import require_role, with_role
from lmi_deploy.targets.sagemaker.transfer_job.perform import JobFiles
from lmi_deploy.targets.target import AccessToken, Hubs, Perform, PreflightFindings, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerTarget(Target[CloudObserved, CloudInventory]):
    """`cloud` opens a region (empty: the default of AWS's own chain), `depot` a bucket; None if it does not exist."""

    cloud: Callable[[str], Cloud]
    depot: Callable[[Cloud, str], BucketServices | None]
    files: Callable[[Path], Source]
    remembered: DeploymentIndex
    clock: Clock
    job_files: JobFiles
    builder: ImageBuilder
    hub_address: Callable[[], str] = lambda: ""
    """Empty: the public Hub."""

    place_of = staticmethod(place_of)
    plan_deployment = staticmethod(deploy.diff)
    estimate = staticmethod(estimate)
    keep_choices = staticmethod(deploy.keep_choices)
    next_placement = staticmethod(deploy.next_placement)
    plan_teardown = staticmethod(teardown)
    plan_rollback = staticmethod(rollback)
    plan_wait = staticmethod(wait_plan)
    plan_count = staticmethod(instance_count.plan_count)
    earlier = staticmethod(candidates)
    status_of = staticmethod(sagemaker_status.status_of)
    fingerprint = staticmethod(sagemaker_status.fingerprint)
    notices = staticmethod(observed_notices)
    plan_notices = staticmethod(plan_notices)
    generation = staticmethod(generation)
    serving = staticmethod(serving)
    weights_named = staticmethod(weights_named)
    unattended = staticmethod(sagemaker_status.unattended)
    require_extendable = staticmethod(require_endpoint)
    kept = staticmethod(kept)
    request_examples = staticmethod(request_examples)
    billed: ClassVar[bool] = True
    during_update = staticmethod(during_update)
    prices = staticmethod(costs.prices)
    most_hourly = staticmethod(costs.most_hourly)
    with_other_scaling = staticmethod(costs.with_other_scaling)
    require_affordable = staticmethod(costs.require_affordable)

    def probe_action(self, spec: Spec, artifact: Artifact) -> Action:
        return deploy.probe_endpoint(spec)

    def hourly_cost(self, observed: CloudObserved) -> str:
        return running_costs.hourly(observed, self.cloud(observed.ref.region))

    def remaining_cost(self, observed: CloudObserved) -> str:
        return running_costs.remaining(observed, self.cloud(observed.ref.region).prices)

    def require_affordable_generation(
        self, generation: Generation, ref: DeploymentRef, most: float | None
    ) -> str:
        return costs.require_affordable_generation(generation, self.cloud(ref.region).prices.hourly, most)

    def gather(self, recipe: Recipe, facts: Facts) -> Facts:
        opened = self.cloud(recipe.endpoint.region or "")
        caller = opened.caller
        if facts.in_place is not None:
            observed_weights.require_readable(facts.in_place, opened)
        cloud = CloudFacts(
            account=caller.account,
            partition=caller.partition,
            region=caller.region,
            principal=caller.arn,
            bucket=recipe.endpoint.bucket or default_bucket(caller.account, caller.region),
            hub=self.hub_address() if recipe.weights.via == "job" else "",
            instance=self._deployed_instance(recipe) if recipe.instance_type == AUTO_INSTANCE else "",
        )
        return replace(facts, cloud=cloud)

    def _deployed_instance(self, recipe: Recipe) -> str:
        region, bucket = recipe.endpoint.region or "", recipe.endpoint.bucket or ""
        ref = DeploymentRef(name=recipe.name, target="sagemaker", region=region, bucket=bucket)
        try:
            return deployed_instance(self.observe(ref))
        except AccessError:
            return ""  # a plan reports it when it observes; policies and files need no such permission

    def preflight(self, spec: Spec, plan: Plan, recipe: str, *, quick: bool = False) -> PreflightFindings:
        return preflight(spec, plan, lambda: self.cloud(spec.cloud.region), recipe, quick=quick)

    def details(self, observed: CloudObserved) -> StatusDetails:
        return status_details.details(observed, self.address)

    def recent_metrics(self, observed: CloudObserved, *, candidate: bool = False) -> RecentMetrics | None:
        return status_details.recent_metrics(observed, self._opened, candidate=candidate)

    def list_all(self, region: str) -> ListedDeployments:
        return self._orphans(region).all()

    def list_jobs(self, region: str, since: datetime) -> Iterator[tuple[DeploymentRef, ObservedJob]]:
        return self._orphans(region).jobs(since)

    def list_orphans(self, region: str) -> tuple[OrphanedDeployment, ...]:
        return self._orphans(region).find()

    def _orphans(self, region: str) -> Orphans:
        return Orphans(
            cloud=self.cloud(region),
            observe=self.observe,
            lock=lambda ref: self.opened(ref).lock,
            store=lambda ref: self.opened(ref).store,
            clock=self.clock,
        )

    def require_removable(self, observed: CloudObserved) -> None:
        require_unshared(observed)
        if observed.ownership:
            require_ownership_tag(observed, cost=self.hourly_cost(observed))

    def require_startable(self, observed: CloudObserved, generation: Generation) -> None:
        require_role(generation, observed, self.cloud(observed.ref.region))

    def set_expiry(self, observed: CloudObserved, expires: str) -> None:
        endpoint, cloud = require_endpoint(observed), self.cloud(observed.ref.region)
        if observed.schedule is not None:
            # First: it must not delete what has just been extended.
            cloud.schedules.delete_at(observed.ref.name, expires, role=observed.schedule.role)
        cloud.hosting.tag(endpoint.arn, ((TAG_EXPIRES, expires),))

    def deploy_actions(self, spec: Spec, artifact: Artifact, hubs: Hubs) -> Perform:
        return self._performers(spec.ref).deploy(spec, artifact, hubs, self.files, self.job_files)

    def teardown_actions(self, ref: DeploymentRef) -> Perform:
        return self._performers(ref).teardown()

    def _performers(self, ref: DeploymentRef) -> SageMakerPerformers:
        return SageMakerPerformers(
            ref=ref,
            cloud=self._opened(ref),
            services=lambda: self.opened(ref),
            forget=lambda: self.remembered.discard(ref),
            clock=self.clock,
            builder=self.builder,
            requests=lambda: self.async_requests(ref),
            bucket_in=self._bucket_in,
        )

    def _bucket_in(self, region: str) -> BucketServices | None:
        return observed_weights.region_bucket(region, self.cloud, self.depot)

    def async_requests(self, ref: DeploymentRef) -> AsyncRequests:
        def store(bucket: str) -> ObjectStore:
            return self.opened(replace(ref, bucket=bucket)).store

        return AsyncRequests(ref.name, self._opened(ref).hosting, store(ref.bucket), store, self.clock)

    def list_known(self) -> tuple[DeploymentRef, ...]:
        """Those that were deployed from this machine: without a network request."""
        return self.remembered.all()

    def observe(self, ref: DeploymentRef) -> CloudObserved:
        observed = sagemaker_observe.observe(ref, self._opened(ref), self.depot)
        observed = sagemaker_observe.check_expiry(observed, self.clock.now())
        return sagemaker_observe.with_other_locations(observed, self.remembered.all)

    def inspect(self, ref: DeploymentRef) -> CloudObserved:
        cloud = self._opened(ref)
        observed = observed_weights.with_weights(self.observe(ref), cloud, self.depot)
        return with_role(observed_weights.with_in_place(observed, cloud, self.depot), cloud)

    def observe_scaling(self, ref: DeploymentRef) -> CloudObserved:
        return with_scaling(self.inspect(ref), self._opened(ref))

    def read_record(self, ref: DeploymentRef) -> Record | None:
        """From the given bucket or the account's own; else the endpoint's tags name it."""
        cloud = self._opened(ref)
        bucket_services = self.depot(
            cloud, ref.bucket or default_bucket(cloud.caller.account, cloud.caller.region)
        )
        record = bucket_services.records.read(ref.name) if bucket_services else None
        return record or self.observe(ref).record

    def confirm(self, observed: CloudObserved) -> CloudObserved:
        current = sagemaker_observe.confirm(observed, self.cloud(observed.ref.region))
        return sagemaker_observe.check_expiry(current, self.clock.now())

    def observe_all(self, ref: DeploymentRef) -> CloudObserved:
        observed = sagemaker_observe.observe_all(ref, self._opened(ref), self.depot)
        observed = sagemaker_observe.check_expiry(observed, self.clock.now())
        if not observed.exists:
            # Deleted, by any user: this account and region have no more deployment to list.
            self.remembered.discard(observed.ref)
        return sagemaker_observe.with_other_locations(observed, self.remembered.all)

    def inventory(self, spec: Spec, hubs: Hubs) -> CloudInventory:
        cloud = self.cloud(spec.cloud.region)
        inventory = observed_weights.inventory(spec, self.depot(cloud, spec.cloud.bucket), self._bucket_in)
        if spec.cloud.component is not None:
            shared = shared_endpoint(spec.cloud.component.endpoint, cloud)
            shared = with_wanted_count(shared, spec, self.depot(cloud, spec.cloud.bucket))
            inventory = replace(inventory, shared=shared)
        if spec.candidate is not None:
            second = self.inventory(spec.candidate.spec, hubs)
            inventory = observed_weights.with_candidate(inventory, spec, second)
        return observed_weights.with_image(inventory, spec, self.cloud, self.builder)

    def with_prices(self, spec: Spec, observed: CloudObserved, inventory: CloudInventory) -> CloudInventory:
        prices = self.cloud(spec.cloud.region).prices
        running = [name for name, _ in running_instances(observed)]
        known, job = costs.known_prices(spec, running, prices.hourly), transfer_job_place(spec, inventory)
        job_price = prices.hourly(job.instance, "processing") if job else None
        return replace(inventory, prices=known, job_price=job_price, priced=True)

    def remember(self, ref: DeploymentRef) -> None:
        self.remembered.add(ref)

    def invoke(
        self, ref: DeploymentRef, request: HttpRequest, *, timeout: float
    ) -> Iterator[ResponseHead | bytes]:
        hosting = self._opened(ref).hosting
        return hosting.invoke(ref.endpoint, request, timeout=timeout, component=ref.component)

    def address(self, ref: DeploymentRef) -> str:
        return self._opened(ref).hosting.address(ref.endpoint)

    def access_token(self, ref: DeploymentRef, seconds: int) -> AccessToken:
        return deployment_access.access_token(self._opened(ref), ref, seconds)

    def inference_endpoint(self, ref: DeploymentRef) -> InferenceEndpoint:
        return self._opened(ref).hosting.inference_endpoint(ref.endpoint, ref.component)

    def logs(self, ref: DeploymentRef, *, follow: bool) -> Iterator[str]:
        read = partial(self.read_record, ref)
        return deployment_access.log_lines(self._opened(ref), ref, follow=follow, read_record=read)

    def _opened(self, ref: DeploymentRef) -> Cloud:
        """The account and region of a deployment. AccessError if the credentials are of another account."""
        cloud = self.cloud(ref.region)
        if ref.account and ref.account != cloud.caller.account:
            raise AccessError(
                f"{ref.name} is in {ref.place}, but these credentials belong to account {cloud.caller.account}",
                hint=f"use credentials of account {ref.account} (AWS_PROFILE), or give the recipe for the "
                f"deployment of that name in account {cloud.caller.account}",
            )
        return cloud

    def opened(self, ref: DeploymentRef) -> BucketServices:
        """The deployment's bucket, which exists by now."""
        cloud = self._opened(ref)
        bucket = ref.bucket or default_bucket(cloud.caller.account, cloud.caller.region)
        if (bucket_services := self.depot(cloud, bucket)) is None:
            raise NotFound(
                f"s3://{bucket}: no such bucket",
                hint="run `lmi up`, which creates the account's default bucket",
            )
        return bucket_services
