"""The part of the composition root that opens a bucket: the caller, the bucket, its owner, the memory limit."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lmi_deploy.domain.default_bucket import bucket_name_error, default_bucket
from lmi_deploy.domain.sagemaker.tags import BUCKET_TAGS
from lmi_deploy.domain.weights import BucketRequest
from lmi_deploy.errors import NotFound, UsageRefused
from lmi_deploy.errors.url_redaction import mask_urls
from lmi_deploy.ports.account import Account
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.hosting import Hosting
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.message_callback import Notify, ignore
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.resource_tags import ResourceTags
from lmi_deploy.ports.weights import WeightsStore

if TYPE_CHECKING:
    from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
    from lmi_deploy.aws.s3.object_store import BucketLocation
    from lmi_deploy.aws.session import SessionFactory
    from lmi_deploy.ports.external_uploader import ExternalUploader

REQUESTS = "LMI_AWS_REQUESTS"
"""Names a file that gets one line for every request to AWS, including retries: the service and the operation; - is
stderr."""
_AWS = ".amazonaws.com"
_ANY_REGION = "us-east-1"
"""The region in which a bucket is looked up if none is named: S3 returns a bucket's region from any region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketContext:
    """The context in which a bucket is opened: credentials and region in the session, and the account of the caller."""

    session: SessionFactory
    account: Account
    clock: Clock
    environ: Mapping[str, str]
    notify: Notify = ignore
    guard: LeaseGuard | None = None


def open_weights(
    bucket_request: BucketRequest,
    memory_mb: int | None,
    clock: Clock,
    environ: Mapping[str, str],
    *,
    notify: Notify = ignore,
    account: Account | None = None,
) -> WeightsStore:
    """Check the caller and the bucket's owner before any transfer; NotFound if there is no bucket and none may be
    created. `account`: one that the command has opened already, and whose caller it knows.
    """
    from lmi_deploy.aws.account import AwsAccount
    from lmi_deploy.aws.client import AwsConnection
    from lmi_deploy.aws.resource_tags import AwsResourceTags
    from lmi_deploy.aws.s3.object_store import BucketLocation
    from lmi_deploy.aws.sagemaker.hosting import SageMakerHosting

    session = session_at(bucket_request.region, environ, profile=bucket_request.profile)
    account = account or AwsAccount(session, clock=clock, notify=notify)
    caller = account.get_caller()
    bucket = bucket_request.bucket or default_bucket(caller.account, caller.region)
    if error := bucket_name_error(bucket):
        raise UsageRefused(f"{bucket}: {error}", hint="list your buckets with `aws s3 ls`")
    _require(bucket, bucket_request, account)
    bucket_context = BucketContext(
        session=session, account=account, clock=clock, environ=environ, notify=notify
    )
    place = BucketLocation(bucket=bucket, owner=caller.account, kms_key=bucket_request.kms_key)
    access = AwsConnection(session=session, clock=clock, notify=notify)
    hosting = SageMakerHosting(access, account=caller.account)
    return open_bucket(bucket_context, place, AwsResourceTags(access), hosting, memory_mb=memory_mb)[1]


def open_bucket(
    bucket_context: BucketContext,
    place: BucketLocation,
    resource_tags: ResourceTags,
    hosting: Hosting,
    *,
    memory_mb: int | None,
) -> tuple[ObjectStore, WeightsStore]:
    """Our existing bucket: its objects, and the models in it."""
    from lmi_deploy.aws.s3.client_factory import S3Settings
    from lmi_deploy.aws.s3.object_store import S3Store
    from lmi_deploy.targets.sagemaker.weights_in_use import served_weights
    from lmi_deploy.weights.bucket_weights import BucketWeights
    from lmi_deploy.weights.transfer_settings import TransferSettings

    bound = TransferSettings(memory=memory_mb * 1_000_000) if memory_mb else TransferSettings()
    caller, settings = bucket_context.account.get_caller(), S3Settings(connections=bound.streams)
    store = S3Store(
        bucket_context.session,
        place,
        clock=bucket_context.clock,
        settings=settings,
        notify=bucket_context.notify,
        guard=bucket_context.guard,
    )
    other_location = "" if _AWS in store.where else store.where
    by = f" (at {mask_urls(other_location)})" if other_location else ""
    weights = BucketWeights(
        store=store,
        owner=caller.account,
        clock=bucket_context.clock,
        settings=bound,
        where=f"s3://{place.bucket}{by}",
        served=lambda recorded: served_weights(store, resource_tags, hosting, recorded=recorded),
        advise=lambda: bucket_context.account.upload_rule_advice(place.bucket),
        uploaders=_external_uploaders(bucket_context, place, caller.region, store.where),
    )
    return store, weights


def _external_uploaders(
    bucket_context: BucketContext, place: BucketLocation, region: str, where: str
) -> Mapping[str, ExternalUploader]:
    """By the recipe's `weights.engine`. `where` is the address of the bucket's service."""
    from lmi_deploy.aws.s3.uploaders.external_program import UploadTarget
    from lmi_deploy.aws.s3.uploaders.obstore import Obstore
    from lmi_deploy.aws.s3.uploaders.s5cmd import S5cmd

    target = UploadTarget(region=region, endpoint=where, kms_key=place.kms_key, owner=place.owner)
    # s5cmd knows AWS's own addresses. Those of obstore support neither FIPS nor dual stack: ours are passed to it.
    for_s5cmd = replace(target, endpoint="") if _AWS in where else target
    return {
        "s5cmd": S5cmd(bucket_context.session, for_s5cmd, bucket_context.environ),
        "obstore": Obstore(bucket_context.session, target, bucket_context.environ),
    }


def open_s3_models(cache: Path, clock: Clock, environ: Mapping[str, str], *, notify: Notify = ignore) -> Hub:
    """Credentials by the AWS chain, the region by the bucket; nothing is opened before it is read."""
    from lmi_deploy.aws.account import AwsAccount, bucket_region
    from lmi_deploy.aws.s3.object_store import BucketLocation, S3Store
    from lmi_deploy.aws.session import aws_session
    from lmi_deploy.sources.s3_prefix import S3Models
    from lmi_deploy.weights.manifests import read_manifest

    def store(bucket: str) -> ObjectStore:
        session = session_at("", environ)
        if not session().region_name:
            session = aws_session(region=_ANY_REGION)
        owner = AwsAccount(session, clock=clock, notify=notify).get_caller().account
        region = bucket_region(session, bucket, owner, clock=clock)
        return S3Store(
            aws_session(region=region), BucketLocation(bucket=bucket, owner=owner), clock=clock, notify=notify
        )

    return S3Models(store, read_manifest, cache=cache, clock=clock, notify=notify)


def session_at(region: str, environ: Mapping[str, str], *, profile: str = "") -> SessionFactory:
    """One for all clients of a command. Empty text leaves a choice to AWS's own chain."""
    from lmi_deploy.aws.session import require_addresses

    require_addresses(environ)
    # boto3 reads AWS_DEFAULT_REGION alone; the CLI and every other SDK read AWS_REGION first.
    region = region or environ.get("AWS_REGION", "")
    chain = tuple(sorted(item for item in environ.items() if item[0] == "HOME" or item[0].startswith("AWS_")))
    return _session(region, profile, environ.get(REQUESTS, ""), chain)


@cache
def _session(region: str, profile: str, requests: str, chain: tuple[tuple[str, str], ...]) -> SessionFactory:
    """`chain` is what boto3 reads by itself: other credentials in it need another session."""
    from lmi_deploy.aws.session import SharedSession, aws_session

    def note(service: str, operation: str) -> None:
        if requests == "-":
            sys.stderr.write(f"aws  {service} {operation}\n")
            return
        with Path(requests).open("a") as lines:
            lines.write(f"{service} {operation}\n")

    return SharedSession(aws_session(profile=profile, region=region, watch=note if requests else None))


def _require(bucket: str, bucket_request: BucketRequest, account: Account) -> None:
    if account.has_bucket(bucket):
        return
    if bucket_request.bucket:
        make = f"aws s3 mb s3://{bucket} --region {account.get_caller().region}"
        raise NotFound(
            f"s3://{bucket}: no such bucket",
            hint=f"check the spelling (`aws s3 ls`), create it ({make}), or omit the bucket and use `lmi weights "
            "push --create-bucket`, which creates the account's default bucket",
        )
    if not bucket_request.create:
        raise NotFound(
            f"s3://{bucket}: the account's default bucket does not exist yet",
            hint="create it with `lmi up` or `lmi weights push --create-bucket` (private, encrypted, TLS only), or "
            "name another bucket",
        )
    account.make_bucket(bucket, tags=BUCKET_TAGS, kms_key=bucket_request.kms_key)
