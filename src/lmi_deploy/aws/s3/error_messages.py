"""S3's refusals as errors of lmi: what, why, and what next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lmi_deploy.aws.credentials import LOG_IN_AGAIN, refused_credentials
from lmi_deploy.aws.error_classification import AwsError
from lmi_deploy.aws.error_messages import policy_hint, skewed, unreachable, words
from lmi_deploy.errors import (
    AccessError,
    CloudError,
    Conflict,
    IntegrityError,
    LmiError,
    NotFound,
    Refused,
    TransferFailed,
)

ACTIONS: Final[Mapping[str, str]] = {
    "abort_multipart_upload": "s3:AbortMultipartUpload",
    "complete_multipart_upload": "s3:PutObject",
    "copy_object": "s3:PutObject",
    "create_bucket": "s3:CreateBucket",
    "create_multipart_upload": "s3:PutObject",
    "delete_bucket": "s3:DeleteBucket",
    "delete_object": "s3:DeleteObject",
    "delete_objects": "s3:DeleteObject",
    "get_bucket_lifecycle_configuration": "s3:GetLifecycleConfiguration",
    "get_object": "s3:GetObject",
    "head_bucket": "s3:ListBucket",
    "head_object": "s3:GetObject",
    "list_multipart_uploads": "s3:ListBucketMultipartUploads",
    "list_object_versions": "s3:ListBucketVersions",
    "list_objects_v2": "s3:ListBucket",
    "list_parts": "s3:ListMultipartUploadParts",
    "put_bucket_encryption": "s3:PutEncryptionConfiguration",
    "put_bucket_policy": "s3:PutBucketPolicy",
    "put_bucket_tagging": "s3:PutBucketTagging",
    "put_object": "s3:PutObject",
    "put_public_access_block": "s3:PutBucketPublicAccessBlock",
    "upload_part": "s3:PutObject",
    "upload_part_copy": "s3:PutObject",
}
"""The IAM action that each call needs."""
_BUCKET_ACTIONS: Final = frozenset({"s3:ListBucket", "s3:ListBucketMultipartUploads"})
OWNERLESS: Final = frozenset({"create_bucket"})
"""Calls without an expected owner, because the bucket does not exist yet."""
_REDIRECTED: Final = frozenset(
    {
        "301",
        "307",
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
        "IncorrectEndpoint",
        "PermanentRedirect",
        "Redirect",
        "TemporaryRedirect",
    }
)


class PreconditionFailed(Conflict):
    """A condition was false. `resent`: our own earlier request may have caused it."""

    def __init__(self, message: str, *, hint: str = "", resent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.resent = resent


@dataclass(frozen=True, slots=True, kw_only=True)
class S3CallContext:
    """The bucket and object of a request."""

    call: str
    bucket: str
    key: str
    owner: str
    region: str
    partition: str
    endpoint: str

    @property
    def what(self) -> str:
        return f"s3://{self.bucket}/{self.key}" if self.key else f"s3://{self.bucket}"

    @property
    def action(self) -> str:
        return ACTIONS[self.call]

    @property
    def resource(self) -> str:
        key = "" if self.action in _BUCKET_ACTIONS or not self.key else f"/{self.key}"
        return f"arn:{self.partition}:s3:::{self.bucket}{key}"


def explain(aws_error: AwsError, subject: S3CallContext) -> LmiError:
    error = refused_credentials(aws_error.code)
    if error is not None:
        return error
    if aws_error.code in _REDIRECTED or aws_error.status in (301, 307):
        return _wrong_region(aws_error, subject)
    if aws_error.code in _BY_CODE:
        return _BY_CODE[aws_error.code](aws_error, subject)
    if aws_error.kind == "damaged" or _is_whole_object_mismatch(aws_error, subject):
        return _damaged(aws_error, subject)
    if aws_error.status == 403:
        return _denied(aws_error, subject)
    if aws_error.status == 400 and aws_error.region and aws_error.region != subject.region:
        return _wrong_region(aws_error, subject)
    if aws_error.code == "400":
        # A response to HEAD has no body with details.
        return AccessError(
            f"{subject.what}: S3 refused {subject.action} without a reason (400), as it does with expired credentials",
            hint=f"log in again, then {LOG_IN_AGAIN}; other S3 servers also answer this if the region is wrong",
        )
    if aws_error.status == 0:
        return _unreachable(aws_error, subject)
    if aws_error.kind in ("again", "contested"):
        return TransferFailed(
            f"{subject.what}: S3 still failed after several attempts: {words(aws_error)}", hint=LOG_IN_AGAIN
        )
    return CloudError(
        f"{subject.what}: S3 refused {subject.action}: {words(aws_error)}",
        hint=f"S3 at {subject.endpoint} answered {aws_error.status}; look up {aws_error.code} in its list of error "
        "codes",
    )


def _is_whole_object_mismatch(error: AwsError, subject: S3CallContext) -> bool:
    """The size or the checksum that was announced for an object is not that of its parts."""
    output = error.message.lower()
    return (
        subject.call == "complete_multipart_upload"
        and error.code == "InvalidRequest"
        and ("object-size" in output or "object size" in output or "checksum" in output)
    )


def _denied(error: AwsError, subject: S3CallContext) -> LmiError:
    who = error.principal or "these credentials"
    action, resource = error.action or subject.action, error.resource or subject.resource
    bucket_of = f"or s3://{subject.bucket} does not belong to account {subject.owner}"
    if subject.call == "head_object":
        # Without permission to list, S3 answers 403 for an object that does not exist.
        bucket_of = (
            f"or {bucket_of[3:]}; an absent object also looks like this without s3:ListBucket on the bucket"
        )
    reason = f"{who} may not {action} on {resource}"
    if error.action:
        return AccessError(f"{subject.what}: access denied: {reason}", hint=policy_hint(action, resource))
    return AccessError(
        f"{subject.what}: access denied: {reason}, {bucket_of}", hint=policy_hint(action, resource)
    )


def _wrong_region(error: AwsError, subject: S3CallContext) -> LmiError:
    place = f"in {error.region}" if error.region else "in another region"
    return AccessError(
        f"s3://{subject.bucket}: the bucket is {place}, but the request went to {subject.region} "
        f"({subject.endpoint})",
        hint=f"set endpoint.region (or AWS_REGION) to {error.region or 'the region of the bucket'}, or use a bucket in "
        f"{subject.region}: an endpoint reads its model from its own region",
    )


def _no_bucket(fault: AwsError, subject: S3CallContext) -> LmiError:
    return NotFound(
        f"s3://{subject.bucket}: no such bucket (at {subject.endpoint})",
        hint="check its name and the region, or omit the bucket: lmi then creates one",
    )


def _no_object(error: AwsError, subject: S3CallContext) -> LmiError:
    if not subject.key:
        return _no_bucket(error, subject)
    return NotFound(
        f"{subject.what}: no such object", hint=f"list the objects with `aws s3 ls s3://{subject.bucket}/`"
    )


def _no_upload(fault: AwsError, subject: S3CallContext) -> LmiError:
    return NotFound(
        f"{subject.what}: the multipart upload does not exist: another process completed or aborted it",
        hint=LOG_IN_AGAIN,
    )


def _unmet(error: AwsError, subject: S3CallContext) -> LmiError:
    return PreconditionFailed(
        f"{subject.what}: another process changed it at the same time ({error.code})",
        hint="run the same command again",
        resent=error.resent,
    )


def _damaged(error: AwsError, subject: S3CallContext) -> LmiError:
    return IntegrityError(
        f"{subject.what}: S3 refused the bytes: {words(error)}",
        hint="the data was corrupted more than once during the transfer: check this machine's memory and network, "
        f"then {LOG_IN_AGAIN}",
    )


def _unreachable(error: AwsError, subject: S3CallContext) -> LmiError:
    failure = unreachable(error, what=subject.what, endpoint=subject.endpoint)
    return failure if isinstance(failure, AccessError) else TransferFailed(failure.message, hint=failure.hint)


def _skewed(fault: AwsError, subject: S3CallContext) -> LmiError:
    return skewed(subject.endpoint, "S3")


def _part_refused(error: AwsError, subject: S3CallContext) -> LmiError:
    return IntegrityError(f"{subject.what}: S3 does not have these parts: {words(error)}", hint=LOG_IN_AGAIN)


def _bucket_name_taken(error: AwsError, subject: S3CallContext) -> LmiError:
    return Refused(
        f"s3://{subject.bucket}: the name is taken ({error.code})",
        hint="set endpoint.bucket to another name; if the bucket is yours, check its region",
    )


def _no_rules(fault: AwsError, subject: S3CallContext) -> LmiError:
    return NotFound(
        f"s3://{subject.bucket}: it has no lifecycle rules", hint="nothing to do: lmi continues without them"
    )


_BY_CODE: Final[Mapping[str, Callable[[AwsError, S3CallContext], LmiError]]] = {
    "NoSuchBucket": _no_bucket,
    "NoSuchKey": _no_object,
    "404": _no_object,
    "NoSuchUpload": _no_upload,
    "PreconditionFailed": _unmet,
    "412": _unmet,
    "ConditionalRequestConflict": _unmet,
    "RequestTimeTooSkewed": _skewed,
    "RequestInTheFuture": _skewed,
    "BucketAlreadyExists": _bucket_name_taken,
    "BucketAlreadyOwnedByYou": _bucket_name_taken,
    "NoSuchLifecycleConfiguration": _no_rules,
    "InvalidPart": _part_refused,
    "InvalidPartOrder": _part_refused,
}
