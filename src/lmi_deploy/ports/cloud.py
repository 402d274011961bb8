"""One account in one region: everything that a deployment on SageMaker is done with, opened late."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.sagemaker.resource_settings import ResourceKind
from lmi_deploy.ports.account import Account, Caller
from lmi_deploy.ports.alarms import AlarmsApi
from lmi_deploy.ports.autoscaling import AutoscalingApi
from lmi_deploy.ports.dashboards import Dashboards
from lmi_deploy.ports.event_history import EventHistory
from lmi_deploy.ports.foreign_scaling import ForeignScalingApi
from lmi_deploy.ports.hosting import Hosting
from lmi_deploy.ports.iam import IamSetup, Roles
from lmi_deploy.ports.image_registry import ImageRegistry
from lmi_deploy.ports.inference_components import InferenceComponents
from lmi_deploy.ports.journal import Records
from lmi_deploy.ports.lock import Lock
from lmi_deploy.ports.logs import CloudLogs
from lmi_deploy.ports.metrics import Metrics
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.optimization_jobs import ModelOptimizations
from lmi_deploy.ports.prices import Prices
from lmi_deploy.ports.processing_jobs import Jobs
from lmi_deploy.ports.quotas import Quotas
from lmi_deploy.ports.resource_tags import ResourceTags
from lmi_deploy.ports.schedules import Schedules
from lmi_deploy.ports.secrets import Secrets
from lmi_deploy.ports.topics import Topics
from lmi_deploy.ports.weights import WeightsStore


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketServices:
    """One of our buckets: weights, artifacts, records and locks. Opened only if the bucket exists and is ours."""

    bucket: str
    store: ObjectStore
    weights: WeightsStore
    records: Records
    lock: Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """The services of the account. While a lock of this process may have expired, no changing request is sent:
    LockLost is raised instead. The same applies to a bucket's store, weights and records.
    """

    caller: Caller
    account: Account
    hosting: Hosting
    components: InferenceComponents
    scalers: AutoscalingApi
    foreign_scaling: ForeignScalingApi
    schedules: Schedules
    tagged: ResourceTags
    events: EventHistory
    logs: CloudLogs
    metrics: Metrics
    alarms: AlarmsApi
    topics: Topics
    dashboards: Dashboards
    prices: Prices
    limits: Quotas
    roles: Roles
    iam_setup: IamSetup
    secrets: Secrets
    jobs: Jobs
    optimizations: ModelOptimizations
    images: ImageRegistry

    def jobs_of(self, kind: ResourceKind) -> Jobs | ModelOptimizations:
        """The service of a kind of job."""
        return self.optimizations if kind == "optimization-job" else self.jobs
