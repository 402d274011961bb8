"""Target `sagemaker`: endpoints of one account, in the region and the bucket that a deployment names."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ParamSpec

from lmi_deploy import __version__
from lmi_deploy.domain import plan
from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.buckets import default_bucket
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.observed import CloudInventory, CloudObserved, Inventory, Observed
from lmi_deploy.domain.record import DeploymentRef, Record
from lmi_deploy.domain.sagemaker import actions as cloud_plan
from lmi_deploy.domain.sagemaker.s3_layout import weights_of
from lmi_deploy.domain.sagemaker.settings import TAG_EXPIRES, TAG_TTL
from lmi_deploy.domain.sagemaker.tags import tags_of
from lmi_deploy.domain.spec import Spec
from lmi_deploy.engines.codec import Codec, codec_of
from lmi_deploy.engines.registry import engine
from lmi_deploy.errors import AccessError, NotFound
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.ports.deployment_index import DeploymentIndex
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.source import Source
from lmi_deploy.targets.probe import TIMEOUT, probe
from lmi_deploy.targets.sagemaker import observe as sagemaker_observe
from lmi_deploy.targets.sagemaker import wait
from lmi_deploy.targets.sagemaker.perform.create import ResourceCreator, expiry_tags
from lmi_deploy.targets.sagemaker.perform.storage import ArtifactStorage, remove_artifact
from lmi_deploy.targets.sagemaker.propagation import Propagation
from lmi_deploy.targets.sagemaker.transfer_job.perform import JobFiles, TransferJobs, clear_jobs, stop_job
from lmi_deploy.targets.target import Outcome, Perform

P = ParamSpec("P")
Steps = Generator[Event, None, Outcome]
BUCKET_TAGS = {"lmi:purpose": "weights and artifacts", "lmi:version": __version__}


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerTarget:
    """`cloud` opens a region (empty: the default of AWS's own chain), `depot` a bucket; None if it does not exist."""

    cloud: Callable[[str], Cloud]
    depot: Callable[[Cloud, str], BucketServices | None]
    files: Callable[[Path], Source]
    remembered: DeploymentIndex
    clock: Clock
    job_files: JobFiles

    def list_known(self) -> tuple[DeploymentRef, ...]:
        """Those that were deployed from this machine: without a network request."""
        return self.remembered.all()

    def observe(self, ref: DeploymentRef) -> CloudObserved:
        observed = sagemaker_observe.observe(ref, self._opened(ref), self.depot)
        return self._with_other_locations(sagemaker_observe.check_expiry(observed, self.clock.now()))

    def inspect(self, ref: DeploymentRef) -> CloudObserved:
        return sagemaker_observe.with_weights(self.observe(ref), self._opened(ref), self.depot)

    def read_record(self, ref: DeploymentRef) -> Record | None:
        """From the given bucket or the account's own; else the endpoint's tags name it."""
        cloud = self._opened(ref)
        bucket_services = self.depot(
            cloud, ref.bucket or default_bucket(cloud.caller.account, cloud.caller.region)
        )
        record = bucket_services.records.read(ref.name) if bucket_services else None
        return record or self.observe(ref).record

    def confirm(self, observed: Observed) -> Observed:
        assert isinstance(observed, CloudObserved)
        current = sagemaker_observe.confirm(observed, self.cloud(observed.ref.region))
        return sagemaker_observe.check_expiry(current, self.clock.now())

    def observe_all(self, ref: DeploymentRef) -> CloudObserved:
        observed = sagemaker_observe.observe_all(ref, self._opened(ref), self.depot)
        observed = sagemaker_observe.check_expiry(observed, self.clock.now())
        if not observed.exists:
            # Deleted, by any user: this account and region have no more deployment to list.
            self.remembered.discard(observed.ref)
        return self._with_other_locations(observed)

    def inventory(self, spec: Spec, hub: Hub) -> CloudInventory:
        bucket_services = self.depot(self.cloud(spec.cloud.region), spec.cloud.bucket)
        issues = bucket_services.weights.flaws(weights_of(spec)) if bucket_services else None
        return CloudInventory(
            bucket=bucket_services is not None, weights=issues == (), weights_flaws=issues or (), priced=False
        )

    def with_prices(self, spec: Spec, inventory: Inventory) -> Inventory:
        assert isinstance(inventory, CloudInventory)
        prices = self.cloud(spec.cloud.region).prices
        requested = {p.instance: prices.hourly(p.instance) for p in spec.cloud.placements}
        known = {instance: price for instance, price in requested.items() if price}
        job = spec.cloud.job
        job_price = prices.hourly(job.instance, "processing") if job and not inventory.weights else None
        return replace(inventory, prices=known, job_price=job_price, priced=True)

    def remember(self, ref: DeploymentRef) -> None:
        self.remembered.add(ref)

    def deploy_actions(self, spec: Spec, artifact: Artifact, hub: Hub) -> Perform:
        ref, cloud = spec.ref, self.cloud(spec.cloud.region)
        propagation = Propagation(cloud=cloud, clock=self.clock)
        creating = ResourceCreator(spec=spec, cloud=cloud, clock=self.clock, propagation=propagation)
        storing = ArtifactStorage(
            spec=spec, artifact=artifact, hub=hub, files=self.files, depot=lambda: self.opened(ref)
        )
        codec = Codec(engine(spec.engine.name), spec.engine.handler, spec.model.task)

        return {
            **self.teardown_actions(ref),
            cloud_plan.UpdateEndpoint: lambda action: wait.update(action, propagation),
            cloud_plan.MakeBucket: lambda action: _make_bucket(cloud, action),
            cloud_plan.PushWeights: storing.push,
            cloud_plan.RunTransferJob: lambda action: self._job(spec, action),
            plan.PutArtifact: storing.put,
            cloud_plan.CreateModel: creating.model,
            cloud_plan.CreateEndpointConfig: creating.endpoint_config,
            cloud_plan.CreateEndpoint: creating.endpoint,
            cloud_plan.ProbeEndpoint: lambda action: self._probe(ref, action, codec),
        }

    def teardown_actions(self, ref: DeploymentRef) -> Perform:
        cloud = self._opened(ref)
        hosting, clock = cloud.hosting, self.clock
        return {
            cloud_plan.UpdateEndpoint: lambda action: wait.update(
                action, Propagation(cloud=cloud, clock=clock)
            ),
            cloud_plan.AwaitService: lambda action: self._await(ref, action),
            cloud_plan.ProbeEndpoint: lambda action: self._probe(ref, action, self._codec(ref)),
            cloud_plan.SetScaling: lambda a: _call(cloud.scalers.scale, a.endpoint, a.scaling),
            cloud_plan.RemoveScaling: lambda a: _call(cloud.scalers.remove, a.endpoint),
            cloud_plan.TagEndpoint: lambda action: _tag(cloud, action),
            cloud_plan.UntagEndpoint: lambda action: _untag(cloud, action),
            cloud_plan.SetExpiry: lambda action: _set_expiry(cloud, clock, action),
            cloud_plan.DeleteEndpoint: lambda action: wait.delete(action, cloud=cloud, clock=clock),
            cloud_plan.DeleteEndpointConfig: lambda a: _call(hosting.delete_endpoint_config, a.config),
            cloud_plan.DeleteModel: lambda a: _call(hosting.delete_model, a.model),
            cloud_plan.StopTransferJob: lambda a: stop_job(
                a, cloud=cloud, clock=clock, interval=wait.poll_intervals
            ),
            cloud_plan.DeleteLogs: lambda a: _call(cloud.logs.remove, a.group),
            cloud_plan.DeleteWeights: lambda action: self._remove_weights(ref, action),
            plan.RemoveArtifact: lambda a: remove_artifact(self.opened(ref).store, ref.name, a),
            plan.RemoveDeployment: lambda action: self._remove(ref),
        }

    def invoke(
        self, ref: DeploymentRef, request: HttpRequest, *, timeout: float
    ) -> Iterator[ResponseHead | bytes]:
        return self._opened(ref).hosting.invoke(ref.name, request, timeout=timeout)

    def address(self, ref: DeploymentRef) -> str:
        return self._opened(ref).hosting.address(ref.name)

    def logs(self, ref: DeploymentRef, *, follow: bool) -> Iterator[str]:
        logs = self._opened(ref).logs
        group = logs.group(ref.name)
        if not group:
            raise NotFound(
                f"{ref.name}: CloudWatch has no log of it",
                hint="nothing is printed before the instance is there and the image pulled; `lmi status` says more",
            )
        if not follow:
            return logs.lines(group)
        return filter(None, logs.follow(group))

    def _opened(self, ref: DeploymentRef) -> Cloud:
        """The account and region of a deployment. AccessError if the credentials are of another account."""
        cloud = self.cloud(ref.region)
        if ref.account and ref.account != cloud.caller.account:
            raise AccessError(
                f"{ref.name} is in {ref.place}; these credentials are of account {cloud.caller.account}",
                hint=f"use credentials of account {ref.account} (AWS_PROFILE); one of that name in account "
                f"{cloud.caller.account} is found by its recipe",
            )
        return cloud

    def _with_other_locations(self, observed: CloudObserved) -> CloudObserved:
        """Nothing found may mean the wrong account or region."""
        if observed.exists:
            return observed
        local = (observed.ref.name, observed.ref.account, observed.ref.region)
        known = (ref for ref in self.remembered.all() if ref.name == observed.ref.name)
        others = tuple(ref for ref in known if (ref.name, ref.account, ref.region) != local)
        return replace(observed, other_locations=others)

    def opened(self, ref: DeploymentRef) -> BucketServices:
        """The deployment's bucket, which exists by now."""
        cloud = self._opened(ref)
        bucket = ref.bucket or default_bucket(cloud.caller.account, cloud.caller.region)
        bucket_services = self.depot(cloud, bucket)
        if bucket_services is None:
            raise NotFound(f"s3://{bucket}: no such bucket", hint="`lmi up` makes the account's default one")
        return bucket_services

    def _await(self, ref: DeploymentRef, action: cloud_plan.AwaitService) -> Steps:
        cloud = self._opened(ref)
        bucket_services = self.opened(ref)
        waiting = wait.EndpointWaiter(cloud=cloud, depot=bucket_services, clock=self.clock, action=action)
        return (yield from waiting.run())

    def _job(self, spec: Spec, action: cloud_plan.RunTransferJob) -> Steps:
        jobs = TransferJobs(
            cloud=self.cloud(spec.cloud.region),
            depot=self.opened(spec.ref),
            clock=self.clock,
            job_files=self.job_files,
            poll_intervals=wait.poll_intervals,
        )
        return (yield from jobs.run(action, spec, tags=tags_of(spec)))

    def _probe(self, ref: DeploymentRef, action: cloud_plan.ProbeEndpoint, codec: Codec) -> Steps:
        answered = probe(
            action.probe,
            codec,
            lambda request: self.invoke(ref, request, timeout=TIMEOUT),
            name=ref.name,
            clock=self.clock,
        )
        yield answered
        return f"answered in {answered.seconds:.1f} s"

    def _codec(self, ref: DeploymentRef) -> Codec:
        """By the record: of the pending generation, else of the current one."""
        record = self.opened(ref).records.read(ref.name)
        generation = (record.coming or record.current) if record else None
        if generation is None:
            raise NotFound(f"{ref.name}: no record says what it is asked", hint="`lmi up` writes one")
        return codec_of({key: str(value) for key, value in generation.summary.items()})

    def _remove_weights(self, ref: DeploymentRef, action: cloud_plan.DeleteWeights) -> Steps:
        yield from ()
        freed = self.opened(ref).weights.remove(action.weights, but=ref.name)
        return f"{freed:,} bytes freed"

    def _remove(self, ref: DeploymentRef) -> Steps:
        yield from ()
        bucket_services = self.opened(ref)
        clear_jobs(bucket_services.store, ref.name)
        bucket_services.records.remove(ref.name)
        self.remembered.discard(ref)
        return "removed"


def _call(done: Callable[P, None], *args: P.args, **named: P.kwargs) -> Steps:
    """One request, without events."""
    yield from ()
    done(*args, **named)
    return "done"


def _make_bucket(cloud: Cloud, action: cloud_plan.MakeBucket) -> Steps:
    yield from ()
    if cloud.account.has_bucket(action.bucket):
        return "there already"
    cloud.account.make_bucket(action.bucket, tags=BUCKET_TAGS, kms_key=action.kms_key)
    return "made"


def _tag(cloud: Cloud, action: cloud_plan.TagEndpoint) -> Steps:
    yield from ()
    cloud.hosting.tag(_arn(cloud, action.endpoint), action.tags)
    return f"{len(action.tags)} tag{'' if len(action.tags) == 1 else 's'}"


def _untag(cloud: Cloud, action: cloud_plan.UntagEndpoint) -> Steps:
    yield from ()
    cloud.hosting.untag(_arn(cloud, action.endpoint), action.names)
    return "taken off"


def _set_expiry(cloud: Cloud, clock: Clock, action: cloud_plan.SetExpiry) -> Steps:
    yield from ()
    arn = _arn(cloud, action.endpoint)
    if not action.ttl:
        cloud.hosting.untag(arn, (TAG_EXPIRES, TAG_TTL))
        return "it does not expire"
    tags = expiry_tags(clock, action.ttl)
    cloud.hosting.tag(arn, tags)
    return f"it expires at {dict(tags)[TAG_EXPIRES]}"


def _arn(cloud: Cloud, endpoint: str) -> str:
    observed = cloud.hosting.endpoint(endpoint)
    if observed is None:
        raise NotFound(f"{endpoint}: the endpoint is gone", hint="`lmi up` makes it anew")
    return observed.arn
