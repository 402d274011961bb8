"""Operations on a bucket: check that it exists and is ours, create it, advise on its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.aws.s3.client import S3Calls
from lmi_deploy.domain import buckets
from lmi_deploy.errors import AccessError, CloudError, LmiError, NotFound, Refused

_OLD_NAMESPACE: Final = "us-east-1"
"""The one region that must not be named when a bucket is created in it."""


def exists(calls: S3Calls) -> bool:
    """Checked before any transfer: it is ours, and in our region. False if there is no bucket of this name."""
    try:
        response = calls("head_bucket")
    except NotFound:
        return False
    region = response.get("BucketRegion") or calls.clients.region
    if region != calls.clients.region:
        raise AccessError(
            f"s3://{calls.bucket}: the bucket is in {region}, this deployment in {calls.clients.region}",
            hint=f"set endpoint.region to {region}, or name a bucket in {calls.clients.region}: an endpoint reads its "
            "model from its own region",
        )
    return True


def make(calls: S3Calls, *, tags: Mapping[str, str], kms_key: str) -> None:
    """All or nothing: if a setting is refused, the empty bucket is deleted again. An existing bucket is not changed."""
    if exists(calls) or not _create(calls):
        return
    try:
        _settle(calls, tags, kms_key)
    except BaseException as why:
        _take_back(calls, why)
        raise


def _take_back(calls: S3Calls, why: BaseException) -> None:
    """If it cannot be deleted, the error names it: the next `up` would take it for a complete bucket."""
    try:
        calls("delete_bucket")
    except LmiError as left:
        if isinstance(why, LmiError):
            remove = f"remove it before you try again: aws s3 rb s3://{calls.bucket}"
            why.message = f"{why.message}; it is left half made ({left.message})"
            why.hint = "; ".join(filter(None, (why.hint, remove)))


def upload_rule_advice(calls: S3Calls) -> str:
    """Also empty if the rules may not be read: then another administrator manages them."""
    try:
        rules = calls("get_bucket_lifecycle_configuration").get("Rules", [])
    except NotFound:
        rules = []
    except (AccessError, CloudError):
        return ""
    return buckets.upload_rule_advice(calls.bucket, calls.owner, rules)


def _create(calls: S3Calls) -> bool:
    """False if another process of our account created it first."""
    region = calls.clients.region
    parameters: dict[str, Any] = {}
    if region != _OLD_NAMESPACE:
        parameters["CreateBucketConfiguration"] = {"LocationConstraint": region}
    if buckets.is_regional(calls.bucket, calls.owner, region):
        parameters["BucketNamespace"] = _namespace(calls)
    try:
        calls("create_bucket", **parameters)
    except Refused:
        if not exists(calls):
            raise
        return False
    return True


def _namespace(calls: S3Calls) -> str:
    model = calls.clients.api.meta.service_model.operation_model("CreateBucket")
    if "BucketNamespace" not in model.input_shape.members:
        raise CloudError(
            f"s3://{calls.bucket}: the installed botocore does not know account-regional buckets",
            hint="pip install -U boto3; or name a bucket of yours in endpoint.bucket",
        )
    return "account-regional"


def _settle(calls: S3Calls, tags: Mapping[str, str], kms_key: str) -> None:
    blocked = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    calls("put_public_access_block", PublicAccessBlockConfiguration=dict.fromkeys(blocked, True))
    calls("put_bucket_encryption", ServerSideEncryptionConfiguration={"Rules": [_encryption(kms_key)]})
    calls("put_bucket_policy", Policy=buckets.tls_only_policy(calls.bucket, calls.clients.partition))
    listed = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
    calls("put_bucket_tagging", Tagging={"TagSet": listed})


def _encryption(kms_key: str) -> dict[str, Any]:
    if not kms_key:
        return {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": kms_key}
    return {"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}
