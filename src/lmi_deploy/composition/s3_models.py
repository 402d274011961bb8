"""The part of the composition root that opens an s3:// prefix as a model repository."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.notify import Notify, ignore
from lmi_deploy.ports.object_store import ObjectStore

_ANY_REGION = "us-east-1"
"""The region in which a bucket is looked up if none is named: S3 returns a bucket's region from any region."""


def open_s3_models(cache: Path, clock: Clock, environ: Mapping[str, str], *, notify: Notify = ignore) -> Hub:
    """Credentials by the AWS chain, the region by the bucket; nothing is opened before it is read."""
    from lmi_deploy.sources.s3_prefix import S3Models
    from lmi_deploy.weights.manifests import read_manifest

    def store(bucket: str) -> ObjectStore:
        return _store(bucket, clock, environ, notify)

    return S3Models(store, read_manifest, cache=cache, clock=clock, notify=notify)


def _store(bucket: str, clock: Clock, environ: Mapping[str, str], notify: Notify) -> ObjectStore:
    from lmi_deploy.aws.account import AwsAccount, bucket_region
    from lmi_deploy.aws.s3 import BucketLocation, S3Store
    from lmi_deploy.aws.session import aws_session
    from lmi_deploy.composition.weights import session_at

    session = session_at("", environ)
    if not session().region_name:
        session = aws_session(region=_ANY_REGION)
    owner = AwsAccount(session, clock=clock, notify=notify).get_caller().account
    region = bucket_region(session, bucket, owner, clock=clock)
    return S3Store(
        aws_session(region=region), BucketLocation(bucket=bucket, owner=owner), clock=clock, notify=notify
    )
