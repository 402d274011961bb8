"""The part of the composition root that opens a bucket: who we are, which bucket, is it ours, how much memory."""

from __future__ import annotations

from collections.abc import Mapping

from lmi_deploy import __version__
from lmi_deploy.core.buckets import default_bucket
from lmi_deploy.core.weights import BucketWish
from lmi_deploy.errors import NotFound
from lmi_deploy.ports.account import Account
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.weights import Weights

TAGS = {"lmi:purpose": "weights and artifacts", "lmi:version": __version__}
_AWS = ".amazonaws.com"


def open_weights(
    wish: BucketWish, memory_mb: int | None, clock: Clock, environ: Mapping[str, str]
) -> Weights:
    """Looks who we are and whose the bucket is before a byte moves; NotFound where there is none and none is wished."""
    from lmi_deploy.adapters.aws.account import AwsAccount
    from lmi_deploy.adapters.aws.session import aws_session
    from lmi_deploy.adapters.s3 import Place, S3Settings, S3Store
    from lmi_deploy.adapters.s5cmd import Errand, S5cmd
    from lmi_deploy.transfer.settings import TransferSettings
    from lmi_deploy.transfer.weights import BucketWeights

    bound = TransferSettings(memory=memory_mb * 1_000_000) if memory_mb else TransferSettings()
    # boto3 reads AWS_DEFAULT_REGION alone; the CLI and every other SDK read AWS_REGION first.
    session = aws_session(profile=wish.profile, region=wish.region or environ.get("AWS_REGION", ""))
    settings = S3Settings(connections=bound.streams)
    account = AwsAccount(session, clock=clock, settings=settings)
    caller = account.who()
    bucket = wish.bucket or default_bucket(caller.account, caller.region)
    _require(bucket, wish, account)
    place = Place(bucket=bucket, owner=caller.account, kms_key=wish.kms_key)
    store = S3Store(session, place, clock=clock, settings=settings)
    by = "" if _AWS in store.where else f" (at {store.where})"
    where = f"s3://{bucket}{by}"
    errand = Errand(
        region=caller.region, endpoint="" if _AWS in store.where else store.where, kms_key=wish.kms_key
    )
    return BucketWeights(
        store=store,
        owner=caller.account,
        clock=clock,
        settings=bound,
        where=where,
        advise=lambda: account.upload_rule_advice(bucket),
        carrier=S5cmd(session, errand, environ),
    )


def _require(bucket: str, wish: BucketWish, account: Account) -> None:
    if account.has_bucket(bucket):
        return
    if wish.bucket:
        raise NotFound(
            f"s3://{bucket}: no such bucket",
            hint="make it (aws s3 mb), or leave the bucket out and add --create-bucket: the account's default is made",
        )
    if not wish.create:
        raise NotFound(
            f"s3://{bucket}: the account's default bucket is not there yet",
            hint="add --create-bucket to make it (public access blocked, encrypted, TLS only), or name one: --bucket",
        )
    account.make_bucket(bucket, tags=TAGS, kms_key=wish.kms_key)
