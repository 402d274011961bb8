"""The part of the composition root that opens an AWS account in one region, and a bucket of it.

Its importers import it late: a command without AWS does not load it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from lmi_deploy.aws.account import AwsAccount
from lmi_deploy.aws.alarms import CloudWatchAlarms
from lmi_deploy.aws.autoscaling import AwsAutoscaling
from lmi_deploy.aws.client import AwsConnection
from lmi_deploy.aws.clock_skew import ClockSkew
from lmi_deploy.aws.dashboards import CloudWatchDashboards
from lmi_deploy.aws.ecr import EcrRegistry
from lmi_deploy.aws.event_history import CloudTrailEvents
from lmi_deploy.aws.foreign_scaling import AwsForeignScaling
from lmi_deploy.aws.iam import IamRoles
from lmi_deploy.aws.iam_setup import AwsIamSetup
from lmi_deploy.aws.lock.bucket_lock import BucketLock
from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
from lmi_deploy.aws.lock.lock_renewal import LASTS, LeaseSettings
from lmi_deploy.aws.logs import CloudWatchLogs
from lmi_deploy.aws.metrics import EndpointMetrics
from lmi_deploy.aws.price_list import AwsPrices
from lmi_deploy.aws.quotas import AwsQuotas
from lmi_deploy.aws.resource_tags import AwsResourceTags
from lmi_deploy.aws.s3.object_store import BucketLocation
from lmi_deploy.aws.s3.record_journal import BucketRecords
from lmi_deploy.aws.sagemaker.components import SageMakerComponents
from lmi_deploy.aws.sagemaker.hosting import SageMakerHosting
from lmi_deploy.aws.sagemaker.optimization_jobs import OptimizationJobs
from lmi_deploy.aws.sagemaker.processing_jobs import ProcessingJobs
from lmi_deploy.aws.schedules import EventBridgeSchedules
from lmi_deploy.aws.secrets import AwsSecrets
from lmi_deploy.aws.topics import SnsTopics
from lmi_deploy.composition.weights import BucketContext, open_bucket, session_at
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.ports.message_callback import Notify, ignore

if TYPE_CHECKING:
    from lmi_deploy.domain.observed_state import Price


LOCK_SECONDS = "LMI_LOCK_SECONDS"
"""Of the environment: how long a lock lasts from its last renewal."""


def open_cloud(
    region: str,
    clock: Clock,
    environ: Mapping[str, str],
    *,
    notify: Notify = ignore,
    guard: LeaseGuard | None = None,
    profile: str = "",
    skew: ClockSkew | None = None,
) -> Cloud:
    """The caller and the services; AccessError if the credentials are absent or refused."""
    access = AwsConnection(
        session=session_at(region, environ, profile=profile),
        clock=clock,
        notify=notify,
        guard=guard,
        skew=skew or ClockSkew(),
    )
    account = AwsAccount(access.session, clock=clock, notify=notify)
    caller = account.get_caller()
    logs = CloudWatchLogs(access)
    return Cloud(
        caller=caller,
        account=account,
        hosting=SageMakerHosting(access, account=caller.account),
        components=SageMakerComponents(access, account=caller.account),
        scalers=AwsAutoscaling(access),
        foreign_scaling=AwsForeignScaling(access),
        schedules=EventBridgeSchedules(access, account=caller.account),
        tagged=AwsResourceTags(access),
        events=CloudTrailEvents(access),
        logs=logs,
        metrics=EndpointMetrics(access),
        alarms=CloudWatchAlarms(access),
        topics=SnsTopics(access),
        dashboards=CloudWatchDashboards(access, account=caller.account),
        prices=AwsPrices(
            access, region=caller.region, partition=caller.partition, known=_known_price(environ)
        ),
        limits=AwsQuotas(access),
        roles=IamRoles(access),
        iam_setup=AwsIamSetup(access),
        secrets=AwsSecrets(access),
        jobs=ProcessingJobs(access, logs, account=caller.account),
        optimizations=OptimizationJobs(access, account=caller.account),
        images=EcrRegistry(access, account=caller.account),
    )


def _known_price(environ: Mapping[str, str]) -> Callable[[str, str], Price | None]:
    """Of an instance type in a region, as the tables have it now: they may be refreshed in between."""
    from lmi_deploy.catalog.packaged_prices import packaged
    from lmi_deploy.composition.local import price_cache

    return lambda instance, region: packaged().overlaid(price_cache(environ).read()).price(instance, region)


def open_bucket_services(
    cloud: Cloud,
    bucket: str,
    clock: Clock,
    environ: Mapping[str, str],
    *,
    memory_mb: int | None = None,
    notify: Notify = ignore,
    guard: LeaseGuard | None = None,
    profile: str = "",
) -> BucketServices | None:
    """None: there is no bucket of this name. AccessError: it belongs to another account, or is in another region."""
    if not cloud.account.has_bucket(bucket):
        return None
    session = session_at(cloud.caller.region, environ, profile=profile)
    bucket_context = BucketContext(
        session=session, account=cloud.account, clock=clock, environ=environ, notify=notify, guard=guard
    )
    place = BucketLocation(bucket=bucket, owner=cloud.caller.account)
    store, weights = open_bucket(bucket_context, place, cloud.tagged, cloud.hosting, memory_mb=memory_mb)
    settings = LeaseSettings.parse(environ.get(LOCK_SECONDS) or str(LASTS), LOCK_SECONDS)
    return BucketServices(
        bucket=bucket,
        store=store,
        weights=weights,
        records=BucketRecords(store),
        lock=BucketLock(
            store,
            clock,
            command=f"lmi {' '.join(sys.argv[1:2])}",
            notify=notify,
            settings=settings,
            guard=guard or LeaseGuard(),
            region=cloud.caller.region,
        ),
    )


def sdk_families() -> tuple[str, ...]:
    """Every family of images that the installed SDK knows."""
    from lmi_deploy.aws.sagemaker import sdk_images

    return sdk_images.families()


def sdk_images(family: str, region: str) -> Iterator[tuple[str, str]]:
    """Version and address of every image of a family in a region, as the installed SDK gives them."""
    from lmi_deploy.aws.sagemaker import sdk_images

    return sdk_images.uris(family, region)
