"""The observed state of a deployment and of its surroundings, before any decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from lmi_deploy.domain.record import DeploymentRef, Record, ServingPeriod
from lmi_deploy.domain.sagemaker.alarm_settings import ObservedAlarms
from lmi_deploy.domain.sagemaker.component_settings import ObservedComponent, SharedEndpoint
from lmi_deploy.domain.sagemaker.expiry import ObservedSchedule
from lmi_deploy.domain.sagemaker.resource_settings import (
    ObservedEndpoint,
    ObservedEndpointConfig,
    Placement,
    Resource,
    ResourceKind,
)
from lmi_deploy.domain.sagemaker.scaling_settings import ScalableKind, Scaling
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.domain.weights import IntegrityIssue


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedServer:
    """The observed state of a model server: `phase` is its own status, `gone` if no process responds."""

    server: str
    phase: Literal["starting", "loading", "ready", "failed", "draining", "gone"]
    pid: int | None
    port: int | None
    served: int = 0
    failed: int = 0
    in_flight: int = 0
    memory: int = 0
    """Bytes, resident, of the server and its workers."""
    since: str = ""
    message: str = ""
    runtime: str = "embedded"
    counted: bool = True
    """Whether the server reports how many requests it served."""

    @property
    def failure(self) -> str:
        """The last lines of its log, and what it means that it still runs."""
        if self.pid is None:
            return self.message or "the model server failed; run `lmi logs` for the reason"
        # It runs, but its model has permanently FAILED; users should see this here before they see it on SageMaker.
        return (
            f"{self.message or 'its worker was lost'}; as on SageMaker the model is now FAILED: /ping answers 500 "
            "and every request 503. Run `lmi up` to start it again (properties.retry_threshold allows more "
            "failures)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalInventory:
    """What this machine already has, so that it need not be created again."""

    engine: bool
    environment: bool
    missing_weights: int
    missing_additional: tuple[int, ...] = ()
    """The same bytes of each additional model of the spec, in its order."""
    image: bool = True
    """Whether the image that lmi builds for runtime `container` exists; true without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalObserved:
    """A deployment as it is now. `serving` names the server at the deployment's address."""

    ref: DeploymentRef
    exists: bool
    """Whether anything of it was found: a folder, a record, a process."""
    record: Record | None
    servers: tuple[ObservedServer, ...] = ()
    artifacts: tuple[str, ...] = ()
    serving: str | None = None
    lockable: ClassVar[bool] = True
    created: ClassVar[str] = ""
    scaling_elsewhere: ClassVar[None] = None
    record_rebuilt: ClassVar[bool] = False
    unrecorded_period: ClassVar[None] = None
    log_group: ClassVar[str] = ""
    captured: ClassVar[str] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Of one instance hour, on demand. `source` gives origin and date."""

    hourly: float
    currency: str
    source: str
    date: str = ""
    """Day or month of the price; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository of images in ECR."""

    tags: Mapping[str, str]
    """Its own, by name."""
    images: Mapping[str, str]
    """The media type of the manifest, by the image's tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudInventory:
    """The state of the account and the region around a deployment on SageMaker."""

    bucket: bool
    weights: bool
    """Whether the manifest of the chosen files is in the bucket, and the bucket lists each of them."""
    weights_flaws: tuple[IntegrityIssue, ...] = ()
    """If the manifest exists and its files differ from it."""
    missing_additional: frozenset[str] = frozenset()
    """Names of the additional models that are not complete in the bucket."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """By the name of missing weights: another region of the recipe, whose bucket has all of them."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By instance type; absent if unknown."""
    job_price: Price | None = None
    """Of an instance of the transfer job; None if unknown, or without a job."""
    image_built: bool = False
    """Whether the image that lmi builds is on this machine."""
    repository: Repository | None = None
    """Of the deployment in ECR; looked up only for an image that lmi builds."""
    priced: bool = True
    """Whether prices were requested; a plan that changes nothing may do without."""
    avoid: tuple[str, ...] = ()
    """Instance types that could not be had just now."""
    shared: SharedEndpoint | None = None
    """The endpoint that the recipe shares; None without one."""
    candidate: CloudInventory | None = None
    """The weights of its candidate that the bucket has; None without one."""

    def choose(self, placements: Sequence[Placement]) -> Placement:
        """The first one that is available, as far as is known; the first of all if none is left."""
        return next((one for one in placements if one.instance not in self.avoid), placements[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudObserved:
    """A deployment on SageMaker. `resources` are all that carry its tag, the endpoint among them."""

    ref: DeploymentRef
    record: Record | None
    endpoint: ObservedEndpoint | None
    record_damaged: str = ""
    """Why its record cannot be read, in words; empty if it can, or there is none."""
    record_rebuilt: bool = False
    """Whether its record was lost, and `record` is what AWS shows of it: the next command that changes it writes it."""
    config: ObservedEndpointConfig | None = None
    """Of the endpoint; None if it was not described (`missing` says whether it is deleted)."""
    resources: tuple[Resource, ...] = ()
    misnamed: tuple[Resource, ...] = ()
    """Resources with its tag but not its form of names: they are foreign and stay untouched."""
    not_owned_reason: str = ""
    """Why the endpoint of this name is not owned by lmi; empty if it is, or does not exist."""
    ownership: str = ""
    """Why an endpoint without our tag belongs to this deployment nevertheless; empty if nothing says so."""
    missing: tuple[tuple[ResourceKind, str], ...] = ()
    """Config and models of the endpoint that no longer exist: SageMaker deletes them under a live endpoint."""
    jobs: tuple[ObservedJob, ...] = ()
    """Transfer jobs of the deployment that have machines, and those whose status may not be read."""
    compile_jobs: tuple[ObservedJob, ...] = ()
    """Compile jobs that `lmi compile` started for this deployment and that have machines."""
    expires: str = ""
    """When `lmi gc` may delete the endpoint, by its tag; ISO 8601, empty without expiry."""
    expired: bool = False
    """Whether that was before now."""
    artifacts: tuple[str, ...] = ()
    incomplete_artifacts: tuple[str, ...] = ()
    """Artifacts that were not written, or not removed, to the end."""
    stored: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Of each artifact, the existing files, and their sizes; those of exported stacks among them."""
    weights_missing_reason: str = ""
    """Which weights are missing in the bucket, in words; checked only for `status`."""
    weights_changed_reason: str = ""
    """Which objects of its weights in place changed, in words; checked only for `status`."""
    weights_unchecked_reason: str = ""
    """Why that could not be checked."""
    role_problem: str = ""
    """What the role of the deployed generation lacks to start one more instance, in words; checked only for `status`
    and `lmi scale`.
    """
    schedule: ObservedSchedule | None = None
    """What deletes the endpoint at its expiry."""
    scaling: Scaling | None = None
    """As registered; None without it, and if it was not read."""
    scaling_read: bool = False
    """Whether it was: of a deployment that is recorded as scaled, for a teardown and for `lmi scale`."""
    scaling_elsewhere: Scaling | None = None
    """What another tool registered for a deployment whose last `lmi up` registered nothing: lmi leaves it alone."""
    alarms: ObservedAlarms | None = None
    """As registered; None without any, and if they were not read."""
    alarms_read: bool = False
    """Whether they were: of an endpoint that is recorded with some, and for a teardown."""
    count_by_hand: int | None = None
    """The number of instances or copies, if neither the last `lmi up` nor autoscaling set it."""
    log_group: str = ""
    """Its name, where CloudWatch has one."""
    other_locations: tuple[DeploymentRef, ...] = ()
    """If nothing was found: other accounts and regions in which this machine deployed the same name."""
    bucket: bool = True
    """Whether the bucket of record and lock exists."""
    component: ObservedComponent | None = None
    """What `endpoint` shows, if that is an inference component."""
    adapters: tuple[ObservedComponent, ...] = ()
    """Its LoRA adapters, if each is an inference component."""
    shared: SharedEndpoint | None = None
    """The endpoint that it shares. Read only for a teardown."""
    sharing: tuple[str, ...] | None = None
    """If this is a shared endpoint, and no deployment: the inference components on it."""

    @property
    def exists(self) -> bool:
        """Whether any of our resources was found. A log group alone is history, not a deployment."""
        is_owned = self.endpoint is not None and not self.not_owned_reason
        return bool(
            is_owned
            or self.record
            or self.resources
            or self.jobs
            or self.compile_jobs
            or self.artifacts
            or self.incomplete_artifacts
            or self.alarms
            or self.adapters
        )

    @property
    def lockable(self) -> bool:
        """Whether there is a place for its lock and its record."""
        return self.bucket

    @property
    def created(self) -> str:
        """When its endpoint was created: distinguishes it from a later one of its name. Empty without an endpoint."""
        return self.endpoint.created if self.endpoint else ""

    @property
    def captured(self) -> str:
        """The address of the requests that its endpoint captured; empty if it captures none."""
        capture = self.config.settings.data_capture if self.config and not self.not_owned_reason else None
        return capture.output if capture else ""

    @property
    def unrecorded_period(self) -> ServingPeriod | None:
        """What runs since another tool changed the instances; None if the record explains them."""
        periods = self.record.periods if self.record else ()
        return periods[-1].followed_by(self.endpoint, self.config) if periods and self.endpoint else None

    @property
    def scalable_kind(self) -> ScalableKind:
        """What autoscaling sets the number of."""
        return "component" if self.component else "variant"

    @property
    def serving(self) -> str | None:
        """The current endpoint config."""
        if self.endpoint is None or self.not_owned_reason or self.endpoint.status not in SERVING:
            return None
        return self.endpoint.config


SERVING = frozenset({"InService", "Updating", "SystemUpdating", "RollingBack"})
"""Endpoint statuses in which requests are answered."""

Observed = LocalObserved | CloudObserved
Inventory = LocalInventory | CloudInventory
