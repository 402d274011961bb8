"""Rights that AWS asks for behind a call, of its caller: to scale, to keep alarms, to use a key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from lmi_deploy.emulator.context import Ask, World
from lmi_deploy.emulator.hosting.s3_reader import s3_backend
from lmi_deploy.emulator.iam.policy_evaluation import Request
from lmi_deploy.emulator.iam.request_permissions import Sent
from lmi_deploy.emulator.iam.roles import iam_backend
from lmi_deploy.emulator.scaling.naming import POLICIES

SCALES: Final = "sagemaker.application-autoscaling.amazonaws.com"
SCALING_ROLE: Final = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
_KEY: Final = re.compile(r"KMSMasterKeyID': '([^']+)'")
_LENT: Final = ("CreateEndpointConfig",)


def behind_scaling(world: World, ask: Ask) -> Iterator[Request]:
    """Application Auto Scaling acts in its caller's name: on the variant, on the alarms, once for a role of its own."""
    resource = str(ask.params.get("ResourceId", ""))
    alarms = world.arn("cloudwatch", ask.region, f"alarm:TargetTracking-{resource}-AlarmHigh")
    if ask.operation == "RegisterScalableTarget":
        endpoint = world.arn("sagemaker", ask.region, "/".join(resource.split("/")[:2]))
        yield Request("sagemaker:DescribeEndpoint", endpoint)
        yield Request("sagemaker:UpdateEndpointWeightsAndCapacities", endpoint)
        if not _has_role(world.account):
            role = f"role/aws-service-role/{SCALES}/{SCALING_ROLE}"
            yield Request(
                "iam:CreateServiceLinkedRole",
                f"arn:aws:iam::{world.account}:{role}",
                {"iam:awsservicename": SCALES},
            )
    elif ask.operation == "PutScalingPolicy":
        yield Request("cloudwatch:DescribeAlarms", alarms)
        yield Request("cloudwatch:PutMetricAlarm", alarms)
    elif ask.operation == "DeleteScalingPolicy" and _is_tracked(world, ask):
        yield Request("cloudwatch:DeleteAlarms", alarms)


def link_scaling(world: World, ask: Ask) -> None:
    """What the first scaling of an account makes there."""
    if ask.operation == "RegisterScalableTarget" and not _has_role(world.account):
        statement = {"Effect": "Allow", "Principal": {"Service": SCALES}, "Action": "sts:AssumeRole"}
        iam_backend(world.account).create_role(
            SCALING_ROLE,
            json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
            f"/aws-service-role/{SCALES}/",
            permissions_boundary=None,
            description="",
            tags=[],
            max_session_duration="3600",
            linked_service=SCALES,
        )


def behind_hosting(world: World, ask: Ask) -> Iterator[Request]:
    """The key of the volumes is lent to SageMaker by who creates what is encrypted with it."""
    key = str(ask.params.get("KmsKeyId", ""))
    if ask.operation in _LENT and key:
        lent = {"kms:grantisforawsresource": "true"}
        arn, context = key_of(world.account, ask.region, key)
        yield Request("kms:DescribeKey", arn, context)
        yield Request("kms:CreateGrant", arn, {**context, **lent})


def behind_storage(sent: Sent) -> Iterator[Request]:
    """Of an encrypted bucket's objects: S3 asks for the key in the name of its caller."""
    bucket, _, key = unquote(sent.path).lstrip("/").partition("/")
    held = s3_backend(sent.account).buckets.get(bucket)
    if sent.service != "s3" or not key or held is None:
        return
    told = _KEY.search(str(held.encryption))
    if told is None:
        return
    arn, context = key_of(sent.account, sent.region, told[1])
    for action in _uses(sent):
        yield Request(action, arn, context)


def _uses(sent: Sent) -> tuple[str, ...]:
    """Which uses of the key S3 asks for.

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


def _is_tracked(world: World, ask: Ask) -> bool:
    rows: list[Any] = [row["params"] for _, row in world.table(POLICIES, ask.region).rows()]
    return any(
        row["ResourceId"] == ask.params.get("ResourceId")
        and row["PolicyName"] == ask.params.get("PolicyName")
        for row in rows
    )
