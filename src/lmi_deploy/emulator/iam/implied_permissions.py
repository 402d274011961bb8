"""Permissions that AWS also checks for the caller of an operation: to scale, to manage alarms, to use a key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext
from lmi_deploy.emulator.hosting.s3_reader import s3_backend
from lmi_deploy.emulator.iam.policy_evaluation import Request
from lmi_deploy.emulator.iam.request_permissions import SignedRequest
from lmi_deploy.emulator.iam.roles import iam_backend
from lmi_deploy.emulator.scaling.naming import POLICIES

SCALES: Final = "sagemaker.application-autoscaling.amazonaws.com"
SCALING_ROLE: Final = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
_KEY: Final = re.compile(r"KMSMasterKeyID': '([^']+)'")
_GRANT_CREATORS: Final = ("CreateEndpointConfig",)


def scaling_permissions(context: EmulatorContext, request: ApiRequest) -> Iterator[Request]:
    """Application Auto Scaling acts in its caller's name: on the variant, on the alarms, once to create
    its own role.
    """
    resource = str(request.params.get("ResourceId", ""))
    alarms = context.arn("cloudwatch", request.region, f"alarm:TargetTracking-{resource}-AlarmHigh")
    if request.operation == "RegisterScalableTarget":
        endpoint = context.arn("sagemaker", request.region, "/".join(resource.split("/")[:2]))
        yield Request("sagemaker:DescribeEndpoint", endpoint)
        yield Request("sagemaker:UpdateEndpointWeightsAndCapacities", endpoint)
        if not _has_role(context.account):
            role = f"role/aws-service-role/{SCALES}/{SCALING_ROLE}"
            yield Request(
                "iam:CreateServiceLinkedRole",
                f"arn:aws:iam::{context.account}:{role}",
                {"iam:awsservicename": SCALES},
            )
    elif request.operation == "PutScalingPolicy":
        yield Request("cloudwatch:DescribeAlarms", alarms)
        yield Request("cloudwatch:PutMetricAlarm", alarms)
    elif request.operation == "DeleteScalingPolicy" and _is_tracked(context, request):
        yield Request("cloudwatch:DeleteAlarms", alarms)


def link_scaling(context: EmulatorContext, request: ApiRequest) -> None:
    """Creates the role that AWS creates at the first scaling of an account."""
    if request.operation == "RegisterScalableTarget" and not _has_role(context.account):
        statement = {"Effect": "Allow", "Principal": {"Service": SCALES}, "Action": "sts:AssumeRole"}
        iam_backend(context.account).create_role(
            SCALING_ROLE,
            json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
            f"/aws-service-role/{SCALES}/",
            permissions_boundary=None,
            description="",
            tags=[],
            max_session_duration="3600",
            linked_service=SCALES,
        )


def hosting_permissions(emulator: EmulatorContext, request: ApiRequest) -> Iterator[Request]:
    """Creating a KMS-encrypted endpoint config creates a grant, so the caller needs kms:CreateGrant."""
    key = str(request.params.get("KmsKeyId", ""))
    if request.operation in _GRANT_CREATORS and key:
        granted = {"kms:grantisforawsresource": "true"}
        arn, context = key_of(emulator.account, request.region, key)
        yield Request("kms:DescribeKey", arn, context)
        yield Request("kms:CreateGrant", arn, {**context, **granted})


def storage_permissions(sent: SignedRequest) -> Iterator[Request]:
    """For objects of an encrypted bucket: S3 uses the key in the name of its caller."""
    bucket, _, key = unquote(sent.path).lstrip("/").partition("/")
    existing = s3_backend(sent.account).buckets.get(bucket)
    if sent.service != "s3" or not key or existing is None:
        return
    match = _KEY.search(str(existing.encryption))
    if match is None:
        return
    arn, context = key_of(sent.account, sent.region, match[1])
    for action in _uses(sent):
        yield Request(action, arn, context)


def _uses(sent: SignedRequest) -> tuple[str, ...]:
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


def _has_role(account: str) -> bool:
    return any(role.name == SCALING_ROLE for role in iam_backend(account).roles.values())


def _is_tracked(context: EmulatorContext, request: ApiRequest) -> bool:
    rows: list[Any] = [row["params"] for _, row in context.table(POLICIES, request.region).rows()]
    return any(
        row["ResourceId"] == request.params.get("ResourceId")
        and row["PolicyName"] == request.params.get("PolicyName")
        for row in rows
    )
