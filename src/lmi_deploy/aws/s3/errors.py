"""S3's refusals in our words: what, why, and what next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lmi_deploy.aws.aws_error import Fault
from lmi_deploy.aws.credentials import AGAIN, refused_credentials
from lmi_deploy.aws.error_messages import policy_hint, skewed, unreachable, words
from lmi_deploy.errors import (
    AccessError,
    CloudError,
    IntegrityError,
    LmiError,
    NotFound,
    Refused,
    TransferFailed,
)
from lmi_deploy.ports.object_store import Conflict

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
"""Calls that know no expected owner: of what is only about to be."""
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


class Unmet(Conflict):
    """A condition did not hold. `resent`: our own earlier request may be the one that was first."""

    def __init__(self, message: str, *, hint: str = "", resent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.resent = resent


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What was asked of which bucket."""

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


def explain(fault: Fault, subject: Subject) -> LmiError:
    """The error that ends the call."""
    told = refused_credentials(fault.code)
    if told is not None:
        return told
    if fault.code in _REDIRECTED or fault.status in (301, 307):
        return _elsewhere(fault, subject)
    if fault.code in _BY_CODE:
        return _BY_CODE[fault.code](fault, subject)
    if fault.kind == "damaged" or _is_about_the_whole(fault, subject):
        return _damaged(fault, subject)
    if fault.status == 403:
        return _denied(fault, subject)
    if fault.status == 400 and fault.region and fault.region != subject.region:
        return _elsewhere(fault, subject)
    if fault.code == "400":
        # The answer to HEAD has no body that would say more.
        return AccessError(
            f"{subject.what}: S3 refused {subject.action} without a reason (400), as it does with expired credentials",
            hint=f"log in again, then {AGAIN}; servers that are not AWS say so, too, where the region is not theirs",
        )
    if fault.status == 0:
        return _unreachable(fault, subject)
    if fault.kind in ("again", "contested"):
        return _gave_up(fault, subject)
    return CloudError(
        f"{subject.what}: S3 refused {subject.action}: {words(fault)}",
        hint=f"S3 at {subject.endpoint} answered {fault.status}; look {fault.code} up in its list of error codes",
    )


def _is_about_the_whole(fault: Fault, subject: Subject) -> bool:
    """The size or the checksum that was announced for an object is not that of its parts."""
    said = fault.message.lower()
    return (
        subject.call == "complete_multipart_upload"
        and fault.code == "InvalidRequest"
        and ("object-size" in said or "object size" in said or "checksum" in said)
    )


def _denied(fault: Fault, subject: Subject) -> LmiError:
    who = fault.principal or "these credentials"
    action, resource = fault.action or subject.action, fault.resource or subject.resource
    bucket_of = f"or s3://{subject.bucket} does not belong to account {subject.owner}"
    if subject.call == "head_object":
        # Without the right to list, S3 says 403 of an object that is not there.
        bucket_of = (
            f"or {bucket_of[3:]}; an absent object also looks like this without s3:ListBucket on the bucket"
        )
    reason = f"{who} may not {action} on {resource}"
    if fault.action:
        return AccessError(f"{subject.what}: access denied: {reason}", hint=policy_hint(action, resource))
    return AccessError(
        f"{subject.what}: access denied: {reason}, {bucket_of}", hint=policy_hint(action, resource)
    )


def _elsewhere(fault: Fault, subject: Subject) -> LmiError:
    place = f"in {fault.region}" if fault.region else "in another region"
    return AccessError(
        f"s3://{subject.bucket}: the bucket is {place}, the request went to {subject.region} ({subject.endpoint})",
        hint=f"set endpoint.region (or AWS_REGION) to {fault.region or 'the region of the bucket'}, or use a bucket in "
        f"{subject.region}: an endpoint reads its model from its own region",
    )


def _no_bucket(fault: Fault, subject: Subject) -> LmiError:
    return NotFound(
        f"s3://{subject.bucket}: no such bucket (asked at {subject.endpoint})",
        hint="check its name and the region, or leave the bucket out: lmi then makes one of its own",
    )


def _no_object(fault: Fault, subject: Subject) -> LmiError:
    if not subject.key:
        return _no_bucket(fault, subject)
    return NotFound(
        f"{subject.what}: no such object", hint=f"`aws s3 ls s3://{subject.bucket}/` shows what is there"
    )


def _no_upload(fault: Fault, subject: Subject) -> LmiError:
    return NotFound(
        f"{subject.what}: the multipart upload is gone: completed or aborted by somebody", hint=AGAIN
    )


def _unmet(fault: Fault, subject: Subject) -> LmiError:
    return Unmet(
        f"{subject.what}: somebody else wrote it meanwhile ({fault.code})",
        hint="run the same command again: it looks first",
        resent=fault.resent,
    )


def _damaged(fault: Fault, subject: Subject) -> LmiError:
    return IntegrityError(
        f"{subject.what}: S3 refused the bytes: {words(fault)}",
        hint=f"they changed on their way more than once: check this machine's memory and network, then {AGAIN}",
    )


def _gave_up(fault: Fault, subject: Subject) -> LmiError:
    return TransferFailed(
        f"{subject.what}: S3 did not do it, and was asked again: {words(fault)}", hint=AGAIN
    )


def _unreachable(fault: Fault, subject: Subject) -> LmiError:
    trouble = unreachable(fault, what=subject.what, endpoint=subject.endpoint)
    return trouble if isinstance(trouble, AccessError) else TransferFailed(trouble.message, hint=trouble.hint)


def _skewed(fault: Fault, subject: Subject) -> LmiError:
    return skewed(subject.endpoint, "S3")


def _part_refused(fault: Fault, subject: Subject) -> LmiError:
    return IntegrityError(f"{subject.what}: S3 does not have these parts: {words(fault)}", hint=AGAIN)


def _taken(fault: Fault, subject: Subject) -> LmiError:
    return Refused(
        f"s3://{subject.bucket}: the name is taken ({fault.code})",
        hint="if the bucket is yours, it may be in another region; else name another one in endpoint.bucket",
    )


def _no_rules(fault: Fault, subject: Subject) -> LmiError:
    return NotFound(f"s3://{subject.bucket}: it has no lifecycle rules", hint="none are needed to go on")


_BY_CODE: Final[Mapping[str, Callable[[Fault, Subject], LmiError]]] = {
    "NoSuchBucket": _no_bucket,
    "NoSuchKey": _no_object,
    "404": _no_object,
    "NoSuchUpload": _no_upload,
    "PreconditionFailed": _unmet,
    "412": _unmet,
    "ConditionalRequestConflict": _unmet,
    "RequestTimeTooSkewed": _skewed,
    "RequestInTheFuture": _skewed,
    "BucketAlreadyExists": _taken,
    "BucketAlreadyOwnedByYou": _taken,
    "NoSuchLifecycleConfiguration": _no_rules,
    "InvalidPart": _part_refused,
    "InvalidPartOrder": _part_refused,
}
