"""The port Account: STS names the caller; its buckets in S3 are looked up, created, and advised on."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.aws.bearer_token import bearer_token
from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.aws.error_classification import read_error
from lmi_deploy.aws.s3.client import S3Calls
from lmi_deploy.aws.s3.client_factory import S3Clients, S3Settings
from lmi_deploy.aws.session import SessionFactory
from lmi_deploy.domain import default_bucket
from lmi_deploy.domain.secret import Secret
from lmi_deploy.errors import AccessError, CloudError, LmiError, NotFound, Refused
from lmi_deploy.ports.account import Caller
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.message_callback import Notify, ignore

_OLD_NAMESPACE: Final = "us-east-1"
"""The one region that must not be named when a bucket is created in it."""


class AwsAccount:
    """`endpoint_url` of the settings is for S3; STS has its own in the environment (AWS_ENDPOINT_URL_STS)."""

    def __init__(
        self,
        session: SessionFactory,
        *,
        clock: Clock,
        settings: S3Settings | None = None,
        sts_url: str = "",
        notify: Notify = ignore,
    ) -> None:
        self._session = session
        self._clock = clock
        self._clients = S3Clients(session, settings or S3Settings())
        self._sts_url = sts_url
        self._notify = notify
        self._lock = threading.Lock()
        self._caller: Caller | None = None

    def get_caller(self) -> Caller:
        with self._lock:
            if self._caller is None:
                self._caller = self._get_caller_identity()
            return self._caller

    def regions(self) -> tuple[str, ...]:
        session = self._session()
        access = AwsConnection(session=self._session, clock=self._clock, notify=self._notify)
        # Without AllRegions: "the Regions that are enabled for your account" (EC2 API reference, DescribeRegions).
        response = Service(access, "ec2")("describe_regions", "regions of the account", needs="Regions")
        partition = self.get_caller().partition
        known = frozenset(session.get_available_regions("sagemaker", partition_name=partition))
        return tuple(sorted(known & {str(region["RegionName"]) for region in response["Regions"]}))

    def bearer_token(self, seconds: int) -> Secret:
        return bearer_token(self._session(), seconds)

    def has_bucket(self, bucket: str) -> bool:
        return _exists(self._calls(bucket))

    def make_bucket(self, bucket: str, *, tags: Mapping[str, str], kms_key: str = "") -> None:
        """All or nothing: if a setting is refused, the empty bucket is deleted again. An existing bucket is not
        changed.
        """
        calls = self._calls(bucket)
        if _exists(calls) or not _create(calls):
            return
        try:
            _settle(calls, tags, kms_key)
        except BaseException as why:
            _take_back(calls, why)
            raise

    def upload_rule_advice(self, bucket: str) -> str:
        """Also empty if the rules may not be read: then another administrator manages them."""
        calls = self._calls(bucket)
        try:
            rules = calls("get_bucket_lifecycle_configuration").get("Rules", [])
        except NotFound:
            rules = []
        except (AccessError, CloudError):
            return ""
        return default_bucket.upload_rule_advice(bucket, calls.owner, rules)

    def _calls(self, bucket: str) -> S3Calls:
        return S3Calls(
            self._clients, bucket, self.get_caller().account, clock=self._clock, notify=self._notify
        )

    def _get_caller_identity(self) -> Caller:
        access = AwsConnection(session=self._session, clock=self._clock, notify=self._notify)
        sts = Service(access, "sts", url=self._sts_url)
        response = sts("get_caller_identity", "STS returned no identity", needs="Arn")
        arn = str(response["Arn"])
        return Caller(
            account=str(response["Account"]), arn=arn, partition=arn.split(":")[1], region=sts.region
        )


def _exists(calls: S3Calls) -> bool:
    """Checked before any transfer: it is ours, and in our region. False if there is no bucket of this name."""
    try:
        response = calls("head_bucket")
    except NotFound:
        return False
    region = response.get("BucketRegion") or calls.clients.region
    if region != calls.clients.region:
        raise AccessError(
            f"s3://{calls.bucket}: the bucket is in {region}, but this deployment is in {calls.clients.region}",
            hint=f"set endpoint.region to {region}, or name a bucket in {calls.clients.region}: an endpoint reads its "
            "model from its own region",
        )
    return True


def _create(calls: S3Calls) -> bool:
    """False if another process of our account created it first."""
    region = calls.clients.region
    parameters: dict[str, Any] = {}
    if region != _OLD_NAMESPACE:
        parameters["CreateBucketConfiguration"] = {"LocationConstraint": region}
    if default_bucket.is_regional(calls.bucket, calls.owner, region):
        model = calls.clients.api.meta.service_model.operation_model("CreateBucket")
        if "BucketNamespace" not in model.input_shape.members:
            raise CloudError(
                f"s3://{calls.bucket}: the installed botocore does not support account-regional buckets",
                hint="run pip install -U boto3, or set endpoint.bucket to your own bucket",
            )
        parameters["BucketNamespace"] = "account-regional"
    try:
        calls("create_bucket", **parameters)
    except Refused:
        if not _exists(calls):
            raise
        return False
    return True


def _settle(calls: S3Calls, tags: Mapping[str, str], kms_key: str) -> None:
    blocked = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    calls("put_public_access_block", PublicAccessBlockConfiguration=dict.fromkeys(blocked, True))
    calls("put_bucket_encryption", ServerSideEncryptionConfiguration={"Rules": [_encryption(kms_key)]})
    calls("put_bucket_policy", Policy=default_bucket.tls_only_policy(calls.bucket, calls.clients.partition))
    listed = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
    calls("put_bucket_tagging", Tagging={"TagSet": listed})


def _encryption(kms_key: str) -> dict[str, Any]:
    if not kms_key:
        return {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": kms_key}
    return {"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}


def _take_back(calls: S3Calls, why: BaseException) -> None:
    """If it cannot be deleted, the error names it: the next `up` would take it for a complete bucket."""
    try:
        calls("delete_bucket")
    except LmiError as left:
        if isinstance(why, LmiError):
            remove = f"delete it before you try again: aws s3 rb s3://{calls.bucket}"
            why.message = f"{why.message}; the incomplete bucket could not be deleted ({left.message})"
            why.hint = "; ".join(filter(None, (why.hint, remove)))


def bucket_region(
    session: SessionFactory, bucket: str, owner: str, *, clock: Clock, settings: S3Settings | None = None
) -> str:
    """Raises NotFound and AccessError as every call does, but not for a bucket that is merely elsewhere."""
    calls = S3Calls(S3Clients(session, settings or S3Settings()), bucket, owner, clock=clock)
    requested = calls.clients.region
    try:
        response = calls("head_bucket")
    except AccessError as exc:
        text = read_error(exc.__cause__).region if isinstance(exc.__cause__, Exception) else ""
        if text in ("", requested):
            raise
        return text
    return str(response.get("BucketRegion") or requested)
