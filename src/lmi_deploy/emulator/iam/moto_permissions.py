"""Which permissions a request to a service of moto needs: S3 by method and path, other services by their action."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote

from lmi_deploy.emulator.iam.policy_evaluation import AccessRequest
from lmi_deploy.emulator.services.s3_objects import has_tags, s3_backend

FREE: Final = ("sts:GetCallerIdentity",)
_OBJECT: Final[Mapping[str, str]] = {
    "GET": "s3:GetObject",
    "HEAD": "s3:GetObject",
    "PUT": "s3:PutObject",
    "POST": "s3:PutObject",
    "DELETE": "s3:DeleteObject",
}
_OBJECT_PARTS: Final[Mapping[tuple[str, str], str]] = {
    ("GET", "tagging"): "s3:GetObjectTagging",
    ("PUT", "tagging"): "s3:PutObjectTagging",
    ("DELETE", "tagging"): "s3:DeleteObjectTagging",
    ("GET", "uploadId"): "s3:ListMultipartUploadParts",
    ("DELETE", "uploadId"): "s3:AbortMultipartUpload",
    ("GET", "attributes"): "s3:GetObjectAttributes",
}
_BUCKET: Final[Mapping[str, str]] = {
    "GET": "s3:ListBucket",
    "HEAD": "s3:ListBucket",
    "PUT": "s3:CreateBucket",
    "DELETE": "s3:DeleteBucket",
}
_BUCKET_PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "location": ("s3:GetBucketLocation", ""),
    "uploads": ("s3:ListBucketMultipartUploads", ""),
    "versioning": ("s3:GetBucketVersioning", "s3:PutBucketVersioning"),
    "versions": ("s3:ListBucketVersions", ""),
    "tagging": ("s3:GetBucketTagging", "s3:PutBucketTagging"),
    "policy": ("s3:GetBucketPolicy", "s3:PutBucketPolicy"),
    "encryption": ("s3:GetEncryptionConfiguration", "s3:PutEncryptionConfiguration"),
    "lifecycle": ("s3:GetLifecycleConfiguration", "s3:PutLifecycleConfiguration"),
    "publicAccessBlock": ("s3:GetBucketPublicAccessBlock", "s3:PutBucketPublicAccessBlock"),
    "ownershipControls": ("s3:GetBucketOwnershipControls", "s3:PutBucketOwnershipControls"),
}


_KEY: Final = re.compile(r"KMSMasterKeyID': '([^']+)'")


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request as far as its rights follow from it."""

    service: str
    region: str
    account: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


def rights(sent: SignedRequest) -> Iterator[AccessRequest]:
    if sent.service == "s3":
        yield from _s3(sent)
        return
    if sent.service == "ecr":
        yield from _ecr(sent)
        return
    target = sent.headers.get("X-Amz-Target", "")
    if target:
        yield AccessRequest(f"{sent.service}:{target.rpartition('.')[2]}", _resource(sent))
        return
    form = {key: values[0] for key, values in parse_qs(sent.body.decode("utf-8", "replace")).items()}
    action = f"{sent.service}:{form.get('Action', sent.query.get('Action', ''))}"
    if action not in FREE:
        yield AccessRequest(action, _named(sent, form))


def _ecr(sent: SignedRequest) -> Iterator[AccessRequest]:
    """Of a repository, by its name or its ARN. Tags at its creation need ecr:TagResource, too (service authorization
    reference, "Actions, resources, and condition keys for Amazon ECR").
    """
    operation = sent.headers.get("X-Amz-Target", "").rpartition(".")[2]
    try:
        requested = json.loads(sent.body)
    except ValueError:
        requested = {}
    name = requested.get("repositoryName")
    named = f"arn:aws:ecr:{sent.region}:{sent.account}:repository/{name}" if name else "*"
    resource = str(requested.get("resourceArn") or named)
    yield AccessRequest(f"ecr:{operation}", resource)
    if operation == "CreateRepository" and requested.get("tags"):
        yield AccessRequest("ecr:TagResource", resource)


def _s3(sent: SignedRequest) -> Iterator[AccessRequest]:
    bucket, _, key = unquote(sent.path).lstrip("/").partition("/")
    arn = f"arn:aws:s3:::{bucket}"
    if not bucket:
        yield AccessRequest("s3:ListAllMyBuckets", "*")
    elif key:
        yield from _object(sent, bucket, key)
        yield from _storage(sent, bucket)
    elif sent.method == "POST" and "delete" in sent.query:
        for text in sent.body.decode("utf-8", "replace").split("<Key>")[1:]:
            yield AccessRequest("s3:DeleteObject", f"{arn}/{text.partition('</Key>')[0]}")
    else:
        prefix = {"s3:prefix": sent.query["prefix"]} if "prefix" in sent.query else {}
        yield AccessRequest(_bucket_action(sent), arn, prefix)


def _object(sent: SignedRequest, bucket: str, key: str) -> Iterator[AccessRequest]:
    """Tags need separate permissions: those that a request sets, and those that a copy copies.

    Sources: S3's API reference on PutObject ("to successfully set the tag-set ... s3:PutObjectTagging") and on
    x-amz-tagging-directive (COPY unless stated), S3's user guide, "Required permissions for Amazon S3 API
    operations".
    """
    arn = f"arn:aws:s3:::{bucket}/{key}"
    yield AccessRequest(_object_action(sent), arn)
    if sent.headers.get("x-amz-tagging"):
        yield AccessRequest("s3:PutObjectTagging", arn)
    if "x-amz-copy-source" in sent.headers:
        source = unquote(sent.headers["x-amz-copy-source"]).lstrip("/").partition("?")[0]
        yield AccessRequest("s3:GetObject", f"arn:aws:s3:::{source}")
        # A copy of one part of an upload (UploadPartCopy) has no tags.
        directive = sent.headers.get("x-amz-tagging-directive", "COPY").upper()
        if directive == "COPY" and "uploadId" not in sent.query and has_tags(sent.account, source):
            yield AccessRequest("s3:GetObjectTagging", f"arn:aws:s3:::{source}")
            yield AccessRequest("s3:PutObjectTagging", arn)


def _object_action(sent: SignedRequest) -> str:
    for part in sent.query:
        if (sent.method, part) in _OBJECT_PARTS:
            return _OBJECT_PARTS[sent.method, part]
    return _OBJECT.get(sent.method, "s3:PutObject")


def _bucket_action(sent: SignedRequest) -> str:
    for part in sent.query:
        if part in _BUCKET_PARTS:
            read, write = _BUCKET_PARTS[part]
            return read if sent.method in ("GET", "HEAD") else write
    return _BUCKET.get(sent.method, "s3:PutObject")


def _resource(sent: SignedRequest) -> str:
    """The resource of a request to a JSON service: a secret, or everything."""
    if sent.service != "secretsmanager":
        return "*"
    try:
        requested = json.loads(sent.body)
    except ValueError:
        return "*"
    name = str(requested.get("SecretId") or requested.get("Name") or "*")
    if name == "*" or name.startswith("arn:"):
        return name
    return secret_arn(sent.account, sent.region, name)


def secret_arn(account: str, region: str, name: str) -> str:
    """With the six characters that only the service knows; for a secret that does not exist yet, with six others."""
    from moto.backends import get_backend

    existing = get_backend("secretsmanager")[account][region].secrets.get(name)
    return (
        str(existing.arn)
        if existing is not None
        else f"arn:aws:secretsmanager:{region}:{account}:secret:{name}-000000"
    )


def _named(sent: SignedRequest, form: Mapping[str, str]) -> str:
    """The role, user, policy, identity provider or SNS topic that a call names."""
    if "TopicArn" in form:
        return form["TopicArn"]
    if "Url" in form:
        return f"arn:aws:iam::{sent.account}:oidc-provider/{form['Url'].removeprefix('https://')}"
    for key in ("RoleArn", "PolicyArn", "PolicySourceArn", "OpenIDConnectProviderArn"):
        if key in form and "RoleName" not in form:
            return form[key]
    for key, kind in (("RoleName", "role"), ("UserName", "user"), ("PolicyName", "policy")):
        if key in form:
            return f"arn:aws:iam::{sent.account}:{kind}/{form[key]}"
    return "*"


def _storage(sent: SignedRequest, bucket: str) -> Iterator[AccessRequest]:
    """For objects of an encrypted bucket: S3 uses the key in the name of its caller."""
    existing = s3_backend(sent.account).buckets.get(bucket)
    match = _KEY.search(str(existing.encryption)) if existing is not None else None
    if match is None:
        return
    arn, context = key_of(sent.account, sent.region, match[1])
    for action in _key_uses(sent):
        yield AccessRequest(action, arn, context)


def _key_uses(sent: SignedRequest) -> tuple[str, ...]:
    """Which uses of the key S3 requests.

    Source: S3's API reference on CreateMultipartUpload (a part is encrypted with a key that was made when the upload
    began), ListParts, CopyObject, and HeadObject (x-amz-checksum-mode).
    """
    is_upload = "uploadId" in sent.query
    if sent.method == "GET":
        return ("kms:Decrypt",)
    if sent.method == "HEAD":
        return ("kms:Decrypt",) if sent.headers.get("x-amz-checksum-mode") else ()
    if sent.method in ("PUT", "POST"):
        reads = is_upload or "x-amz-copy-source" in sent.headers
        return ("kms:GenerateDataKey", "kms:Decrypt") if reads else ("kms:GenerateDataKey",)
    return ()


def key_of(account: str, region: str, given: str) -> tuple[str, dict[str, str]]:
    """ARN and context of a key that is named by its id, ARN or alias; one that moto does not know has any id."""
    alias = given.partition(":alias/")[2] or (
        given.removeprefix("alias/") if given.startswith("alias/") else ""
    )
    if alias:
        return f"arn:aws:kms:{region}:{account}:key/of-{alias}", {"kms:resourcealiases": f"alias/{alias}"}
    return (given if given.startswith("arn:") else f"arn:aws:kms:{region}:{account}:key/{given}"), {}
