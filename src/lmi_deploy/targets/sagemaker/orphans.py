"""Deployments in an account: all with our tag, and which of them are orphans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lmi_deploy.domain.deployment_list import ListedDeployment, ListedDeployments, OrphanedDeployment
from lmi_deploy.domain.deployment_names import name_error
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.expiry import is_expired
from lmi_deploy.domain.sagemaker.resource_names import (
    JOB_KINDS,
    component_names,
    is_compile_job,
    is_own_resource,
)
from lmi_deploy.domain.sagemaker.resource_settings import (
    SERVING_KINDS,
    TAG,
    TAG_BUCKET,
    TAG_EXPIRES,
    TAG_PURPOSE,
    TAG_SHARED,
    TAG_WEIGHTS,
    ListedEndpoint,
    Resource,
)
from lmi_deploy.domain.sagemaker.transfer_job import JOBS, LOAD_INPUT, ObservedJob
from lmi_deploy.domain.weights import model_of_weights
from lmi_deploy.errors import AccessError, NotFound
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.lock import Lock
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.targets.sagemaker.observed_jobs import (
    load_jobs_of,
    possibly_running,
    running_compile_jobs,
)
from lmi_deploy.targets.sagemaker.running_costs import hourly
from lmi_deploy.targets.sagemaker.status import unattended


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """`lock` and `store` open the lock and the bucket of a deployment whose bucket exists."""

    cloud: Cloud
    observe: Callable[[DeploymentRef], CloudObserved]
    lock: Callable[[DeploymentRef], Lock]
    store: Callable[[DeploymentRef], ObjectStore]
    clock: Clock

    def all(self) -> ListedDeployments:
        """Every deployment in the account's region that has any resources, from any machine."""
        groups = dict(self._groups(self.cloud.tagged.all()))
        components: dict[str, ListedEndpoint] = {}
        try:
            endpoints = {endpoint.name: endpoint for endpoint in self.cloud.hosting.endpoints()}
            if any(resource.kind == "inference-component" for found in groups.values() for resource in found):
                components = {each.name: each for each in self.cloud.components.listed()}
        except AccessError as denied:  # the tags alone still name the deployments
            endpoints, unlisted_reason = {}, denied.message
        else:
            unlisted_reason = ""
        return ListedDeployments(
            region=self.cloud.caller.region,
            account=self.cloud.caller.account,
            found=tuple(
                self._listed(name, found, endpoints.get(name) or components.get(name))
                for name, found in groups.items()
            ),
            untagged=frozenset(endpoints.keys() - groups.keys()),
            unlisted_reason=unlisted_reason,
        )

    def _listed(
        self, name: str, found: Sequence[Resource], endpoint: ListedEndpoint | None
    ) -> ListedDeployment:
        tagged = _endpoint_of(found)
        expires = tagged.tag(TAG_EXPIRES) if tagged else ""
        owned = endpoint if tagged else None
        return ListedDeployment(
            ref=self._ref(name, found),
            status=owned.status if owned else "",
            tagged_endpoint=tagged is not None,
            created=owned.created if owned else "",
            modified=owned.modified if owned else "",
            model=model_of_weights(tagged.tag(TAG_WEIGHTS)) if tagged else "",
            expires=expires,
            expired=is_expired(expires, self.clock.now()),
            shared=_shared(tagged),
            components=component_names(found),
        )

    def jobs(self, since: datetime) -> Iterator[tuple[DeploymentRef, ObservedJob]]:
        """Those of deployments that were created since then: a request for each, with the deployment."""
        owned = [
            one
            for one in self.cloud.tagged.all()
            if one.kind in JOB_KINDS and (is_compile_job(one) or is_own_resource(one, one.tag(TAG)))
        ]
        for kind in sorted({one.kind for one in owned}):
            service = self.cloud.jobs_of(kind)
            recent = service.since(since)
            for resource in owned:
                if resource.kind == kind and resource.name in recent and (job := service.job(resource.name)):
                    yield self._ref(resource.tag(TAG), [resource]), job

    def find(self) -> tuple[OrphanedDeployment, ...]:
        """Those that have expired, and those of which an interrupted run left a job, or parts with no record."""
        return tuple(self._found())

    def _found(self) -> Iterator[OrphanedDeployment]:
        resources = self.cloud.tagged.all()
        loading = [one for one in resources if one.tag(TAG_PURPOSE) == LOAD_INPUT]
        keys: dict[str, tuple[str, ...]] = {}
        for name, found in self._groups(resources):
            ref = self._ref(name, found)
            if why := self._why(name, found):
                yield OrphanedDeployment(ref=ref, why=why, resources=len(found))
            elif why := self._why_its_jobs(ref, loading, keys):
                yield OrphanedDeployment(ref=ref, why=why, resources=1, jobs_only=True)

    def _groups(self, resources: Iterable[Resource]) -> Iterator[tuple[str, list[Resource]]]:
        found: defaultdict[str, list[Resource]] = defaultdict(list)
        jobs: defaultdict[str, list[Resource]] = defaultdict(list)
        for resource in resources:
            name = resource.tag(TAG)
            owned = is_compile_job(resource) or is_own_resource(resource, name)
            if owned and not name_error(name):
                kind = jobs if resource.kind in JOB_KINDS else found
                kind[name].append(resource)
        alone = [job for name in jobs.keys() - found.keys() for job in jobs[name]]
        # SageMaker lists a finished job for ever; there is nothing to delete.
        for job in filter(self._is_running, possibly_running(alone, self.cloud)):
            found[job.tag(TAG)].append(job)
        yield from sorted(found.items())

    def _is_running(self, job: Resource) -> bool:
        if is_compile_job(job):
            return bool(running_compile_jobs([job], self.cloud))
        observed = self.cloud.jobs.job(job.name)
        return observed is not None and observed.is_running

    def _why(self, name: str, found: Sequence[Resource]) -> str:
        endpoint = _endpoint_of(found)
        creator = endpoint.tag(TAG_SHARED) if endpoint is not None else ""
        if (
            endpoint is not None
            and not creator
            and not is_expired(endpoint.tag(TAG_EXPIRES), self.clock.now())
        ):
            return ""
        observed = self.observe(self._ref(name, found))
        why = unattended(observed)
        if why and creator and observed.bucket and self.lock(observed.ref).holder(creator):
            return ""  # its `up` still runs: the model comes next
        if not why or not observed.jobs:
            return why
        if observed.bucket and self.lock(observed.ref).holder(name):
            return ""  # its `up` still runs, and watches them
        cost = hourly(observed, self.cloud)
        return f"{why}, which costs {cost}" if cost else why

    def _why_its_jobs(
        self, ref: DeploymentRef, loading: Iterable[Resource], keys: dict[str, tuple[str, ...]]
    ) -> str:
        """Of a deployment that serves: an `lmi bench` that was killed left a job, and no process holds the lock. One
        that ends by itself deletes its job, so that also an ended one is left over.
        """
        name = ref.name
        left = [
            one.name
            for one in loading
            if one.tag(TAG) == name
            and is_own_resource(one, name)
            and self.cloud.jobs.job(one.name) is not None
        ]
        left = sorted({*left, *self._stored_load_jobs(ref, keys)})
        if not left or self.lock(ref).holder(name):
            return ""
        return f"no lmi waits for its load job {', '.join(left)}; the deployment stays"

    def _stored_load_jobs(self, ref: DeploymentRef, keys: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
        """By their objects: the job may have been deleted, or never created. `keys` keeps those of each bucket, so that
        it is listed once, and not for each deployment.
        """
        if ref.bucket and ref.bucket not in keys:
            keys[ref.bucket] = self._job_keys(ref)
        return load_jobs_of(keys.get(ref.bucket, ()), ref.name)

    def _job_keys(self, ref: DeploymentRef) -> tuple[str, ...]:
        """None if the bucket cannot be listed, or does not exist: another deployment's must not end the search."""
        try:
            return tuple(stored.key for stored in self.store(ref).list(JOBS))
        except (AccessError, NotFound):
            return ()

    def _ref(self, name: str, found: Sequence[Resource]) -> DeploymentRef:
        bucket = next(filter(None, (resource.tag(TAG_BUCKET) for resource in found)), "")
        caller = self.cloud.caller
        return DeploymentRef(
            name=name, target="sagemaker", region=caller.region, bucket=bucket, account=caller.account
        )


def _shared(serving: Resource | None) -> Literal["", "endpoint", "model"]:
    if serving is not None and serving.kind == "inference-component":
        return "model"
    return "endpoint" if serving is not None and serving.tag(TAG_SHARED) else ""


def _endpoint_of(found: Sequence[Resource]) -> Resource | None:
    return next((resource for resource in found if resource.kind in SERVING_KINDS), None)
