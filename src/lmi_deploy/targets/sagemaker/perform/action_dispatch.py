"""The function for each action: the writes of one deployment in its account."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ParamSpec

from lmi_deploy.domain import local_actions
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker import actions as cloud_plan
from lmi_deploy.domain.sagemaker import component_actions as component_plan
from lmi_deploy.domain.sagemaker import image_actions as image_plan
from lmi_deploy.domain.sagemaker.adapter_actions import PackAdapter
from lmi_deploy.domain.sagemaker.adoption_actions import AdoptResource, RemoveForeignScaling
from lmi_deploy.domain.sagemaker.alarm_actions import RemoveAlarms, SetAlarms
from lmi_deploy.domain.sagemaker.dashboard_names import dashboard_marker, dashboard_name
from lmi_deploy.domain.sagemaker.job_actions import RunTransferJob, StopCompileJob, StopTransferJob
from lmi_deploy.domain.sagemaker.resource_settings import TAG_EXPIRES, TAG_TTL
from lmi_deploy.domain.sagemaker.scaling_actions import (
    RemoveScaling,
    SetInstanceCount,
    SetScaling,
    SetTraffic,
)
from lmi_deploy.domain.sagemaker.tags import BUCKET_TAGS, tags_of
from lmi_deploy.domain.sagemaker.transfer_job import compile_job_of
from lmi_deploy.errors import NotFound
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.ports.image_builder import ImageBuilder
from lmi_deploy.ports.source import Source
from lmi_deploy.targets.sagemaker import endpoint_waiter
from lmi_deploy.targets.sagemaker.async_requests import AsyncRequests, delete_requests
from lmi_deploy.targets.sagemaker.eventual_consistency import Propagation
from lmi_deploy.targets.sagemaker.job_watch import JobWatch
from lmi_deploy.targets.sagemaker.perform.adapter_archive import pack_adapter
from lmi_deploy.targets.sagemaker.perform.adapter_components import AdapterPerformers
from lmi_deploy.targets.sagemaker.perform.artifact_storage import ArtifactStorage, remove_artifact
from lmi_deploy.targets.sagemaker.perform.components import ComponentPerformers
from lmi_deploy.targets.sagemaker.perform.endpoint_probe import EndpointProbe
from lmi_deploy.targets.sagemaker.perform.image_publishing import (
    ImagePublisher,
    delete_image,
    delete_repository,
)
from lmi_deploy.targets.sagemaker.perform.instance_count import set_instance_count
from lmi_deploy.targets.sagemaker.perform.resource_creation import ResourceCreator, expiry_tags
from lmi_deploy.targets.sagemaker.perform.schedules import remove_schedule, schedule_deletion
from lmi_deploy.targets.sagemaker.perform.shared_endpoint import SharedEndpointCreator
from lmi_deploy.targets.sagemaker.perform.traffic import set_traffic
from lmi_deploy.targets.sagemaker.perform.versions import Versions
from lmi_deploy.targets.sagemaker.transfer_job.perform import (
    JobFiles,
    TransferJobs,
    clear_job,
    clear_jobs,
    stop_job,
)
from lmi_deploy.targets.target import Hubs, Outcome, Perform

P = ParamSpec("P")
Steps = Generator[Event, None, Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerPerformers:
    """`services` opens the deployment's bucket, which exists by then; `forget` drops it from this machine's index."""

    ref: DeploymentRef
    cloud: Cloud
    services: Callable[[], BucketServices]
    forget: Callable[[], None]
    clock: Clock
    builder: ImageBuilder
    requests: Callable[[], AsyncRequests]
    bucket_in: Callable[[str], BucketServices | None]
    """The account's default bucket of a region."""

    def deploy(
        self, spec: Spec, artifact: Artifact, hubs: Hubs, files: Callable[[Path], Source], job_files: JobFiles
    ) -> Perform:
        propagation = Propagation(cloud=self.cloud, clock=self.clock)
        versions = Versions(spec=spec, artifact=artifact)
        creating = ResourceCreator(spec=spec, cloud=self.cloud, clock=self.clock, propagation=propagation)
        sharing = SharedEndpointCreator(
            spec=spec, cloud=self.cloud, clock=self.clock, propagation=propagation, services=self.services
        )
        storing = ArtifactStorage(
            spec=spec,
            artifact=artifact,
            hubs=hubs,
            files=files,
            depot=self.services,
            bucket_in=self.bucket_in,
        )
        publisher = ImagePublisher(spec=spec, registry=self.cloud.images, builder=self.builder)
        return {
            **self.teardown(),
            cloud_plan.MakeBucket: lambda action: make_bucket(self.cloud, action),
            cloud_plan.PushWeights: lambda a: replace(storing, spec=versions.of_weights(a.weights)).push(a),
            RunTransferJob: lambda a: self._job(versions.of_job(a.job), a, job_files),
            local_actions.PutArtifact: lambda a: storing.of(*versions.of_artifact(a.artifact)).put(a),
            local_actions.BuildImage: publisher.build,
            image_plan.MakeRepository: publisher.create,
            image_plan.PushImage: publisher.push,
            cloud_plan.CreateModel: lambda a: replace(creating, spec=versions.of_model(a.model)).model(a),
            cloud_plan.CreateEndpointConfig: creating.endpoint_config,
            cloud_plan.CreateEndpoint: creating.endpoint,
            PackAdapter: lambda action: pack_adapter(self.services().store, spec, action),
            component_plan.CreateSharedEndpoint: sharing.endpoint,
            component_plan.CreateInferenceComponent: sharing.component,
            cloud_plan.ProbeEndpoint: lambda action: self._probe.run(action, *versions.codecs),
            SetAlarms: creating.alarms,
        }

    def teardown(self) -> Perform:
        """Those that need no spec: of a teardown, of waiting and of going back."""
        cloud, clock, hosting = self.cloud, self.clock, self.cloud.hosting
        return {
            **AdapterPerformers(cloud=cloud, clock=clock).table,
            **ComponentPerformers(cloud=cloud, clock=clock).performers(),
            cloud_plan.UpdateEndpoint: lambda action: endpoint_waiter.update(
                action, Propagation(cloud=cloud, clock=clock)
            ),
            cloud_plan.AwaitService: self._await,
            cloud_plan.ProbeEndpoint: self._probe.run,
            SetInstanceCount: lambda action: set_instance_count(action, cloud=cloud, clock=clock),
            SetTraffic: lambda action: set_traffic(action, cloud=cloud, clock=clock),
            SetScaling: lambda a: _call(cloud.scalers.scale, a.endpoint, a.scaling, a.of),
            RemoveScaling: lambda a: _call(cloud.scalers.remove, a.endpoint, a.of),
            RemoveAlarms: lambda a: _call(cloud.alarms.remove, a.endpoint),
            AdoptResource: lambda a: _call(hosting.tag, a.arn, a.tags),
            RemoveForeignScaling: lambda a: _call(cloud.foreign_scaling.remove, a.endpoint, a.variant),
            cloud_plan.TagEndpoint: lambda action: _tag(cloud, action),
            cloud_plan.UntagEndpoint: lambda action: _untag(cloud, action),
            cloud_plan.SetExpiry: lambda action: _set_expiry(cloud, clock, action),
            cloud_plan.ScheduleDeletion: lambda action: schedule_deletion(cloud, clock, action),
            cloud_plan.RemoveDashboard: lambda action: _remove_dashboard(cloud, action),
            cloud_plan.RemoveSchedule: lambda action: remove_schedule(cloud, action),
            cloud_plan.DeleteEndpoint: lambda action: endpoint_waiter.delete(
                action, cloud=cloud, clock=clock
            ),
            cloud_plan.DeleteEndpointConfig: lambda a: _call(hosting.delete_endpoint_config, a.config),
            cloud_plan.DeleteModel: lambda a: _call(hosting.delete_model, a.model),
            StopTransferJob: lambda a: stop_job(
                a,
                cloud=cloud,
                clock=clock,
                interval=endpoint_waiter.poll_intervals,
                store=lambda: self.services().store,
            ),
            StopCompileJob: self._stop_compile_job,
            cloud_plan.DeleteLogs: lambda a: _call(cloud.logs.remove, a.group),
            image_plan.DeleteImage: lambda a: delete_image(cloud.images, self.ref.name, a),
            image_plan.DeleteRepository: lambda a: delete_repository(cloud.images, self.ref.name, a),
            cloud_plan.DeleteWeights: self._remove_weights,
            cloud_plan.DeleteAsyncRequests: self._delete_async_requests,
            local_actions.RemoveArtifact: lambda a: remove_artifact(self.services().store, self.ref.name, a),
            local_actions.RemoveDeployment: self._remove,
        }

    def _await(self, action: cloud_plan.AwaitService) -> Steps:
        waiting = endpoint_waiter.EndpointWaiter(
            cloud=self.cloud, depot=self.services(), clock=self.clock, action=action
        )
        return (yield from waiting.run())

    def _job(self, spec: Spec, action: RunTransferJob, job_files: JobFiles) -> Steps:
        jobs = TransferJobs(
            cloud=self.cloud,
            depot=self.services(),
            clock=self.clock,
            job_files=job_files,
            poll_intervals=endpoint_waiter.poll_intervals,
        )
        return (yield from jobs.run(action, spec, tags=tags_of(spec)))

    def _stop_compile_job(self, action: StopCompileJob) -> Steps:
        watch = JobWatch(
            jobs=self.cloud.jobs_of(action.of),
            clock=self.clock,
            poll_intervals=endpoint_waiter.poll_intervals,
            job=action.job,
            key=action.key,
        )
        yield from watch.stop()
        clear_job(self.services().store, compile_job_of(action.job))
        return "ended"

    @property
    def _probe(self) -> EndpointProbe:
        return EndpointProbe(
            ref=self.ref,
            cloud=self.cloud,
            services=self.services,
            clock=self.clock,
            requests=self.requests,
        )

    def _delete_async_requests(self, action: cloud_plan.DeleteAsyncRequests) -> Steps:
        yield from ()
        return counted(delete_requests(self.services().store, action.endpoint), "object")

    def _remove_weights(self, action: cloud_plan.DeleteWeights) -> Steps:
        yield from ()
        return self.services().weights.remove(action.weights, but=self.ref.name).words

    def _remove(self, action: local_actions.RemoveDeployment) -> Steps:
        yield from ()
        bucket_services = self.services()
        clear_jobs(bucket_services.store, self.ref.name)
        bucket_services.records.remove(self.ref.name)
        self.forget()
        return "removed"


def _call(done: Callable[P, None], *args: P.args, **named: P.kwargs) -> Steps:
    """One request, without events."""
    yield from ()
    done(*args, **named)
    return "done"


def make_bucket(cloud: Cloud, action: cloud_plan.MakeBucket) -> Steps:
    yield from ()
    if cloud.account.has_bucket(action.bucket):
        return "there already"
    cloud.account.make_bucket(action.bucket, tags=BUCKET_TAGS, kms_key=action.kms_key)
    return "made"


def _tag(cloud: Cloud, action: cloud_plan.TagEndpoint) -> Steps:
    yield from ()
    cloud.hosting.tag(_arn(cloud, action.endpoint), action.tags)
    return counted(len(action.tags), "tag")


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


def _remove_dashboard(cloud: Cloud, action: cloud_plan.RemoveDashboard) -> Steps:
    name, marker = dashboard_name(action.endpoint, cloud.caller.region), dashboard_marker(action.endpoint)
    return _call(cloud.dashboards.remove, name, marker=marker)


def _arn(cloud: Cloud, endpoint: str) -> str:
    observed = cloud.hosting.endpoint(endpoint) or cloud.components.component(endpoint)
    if observed is None:
        raise NotFound(f"{endpoint}: the endpoint was deleted", hint="run `lmi up` to create it again")
    return observed.arn
