"""IAM policies: explicit deny, then any allow, else deny."""

from __future__ import annotations

from typing import Any

import pytest

from lmi_deploy.emulator.iam.policy_evaluation import AccessRequest, allows, trusts


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(action: Any, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


KEY = "arn:aws:s3:::bucket/a/b"
PASS = {"Condition": {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}}
CASES = [
    (policy(allow("s3:GetObject", KEY)), AccessRequest("s3:GetObject", KEY), True),
    (policy(allow("S3:getobject", KEY)), AccessRequest("s3:GetObject", KEY), True),
    (policy(allow("s3:Get*", "arn:aws:s3:::bucket/*")), AccessRequest("s3:GetObject", KEY), True),
    (policy(allow("s3:Get*", "arn:aws:s3:::bucket")), AccessRequest("s3:GetObject", KEY), False),
    (policy(allow("s3:ListBucket")), AccessRequest("s3:GetObject", KEY), False),
    (policy(allow("*"), {**allow("s3:*"), "Effect": "Deny"}), AccessRequest("s3:GetObject", KEY), False),
    (
        policy({"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}),
        AccessRequest("s3:GetObject", KEY),
        True,
    ),
    (
        policy({"Effect": "Allow", "Action": "*", "NotResource": KEY}),
        AccessRequest("s3:GetObject", KEY),
        False,
    ),
    (policy(allow("iam:PassRole", **PASS)), AccessRequest("iam:PassRole", "r"), False),
    (
        policy(allow("iam:PassRole", **PASS)),
        AccessRequest("iam:PassRole", "r", {"iam:passedtoservice": "sagemaker.amazonaws.com"}),
        True,
    ),
    (
        policy(allow("*", Condition={"StringNotEquals": {"aws:ResourceTag/x": "1"}})),
        AccessRequest("s3:GetObject", KEY, {"aws:resourcetag/x": "1"}),
        False,
    ),
    (policy(allow("*", Condition={"Null": {"aws:TagKeys": "true"}})), AccessRequest("a:B", "r"), True),
    (policy(allow("s3:?etObject")), AccessRequest("s3:GetObject", KEY), True),
    (policy(allow("*", "arn:aws:s3:::[bucket]/*")), AccessRequest("s3:GetObject", KEY), False),
]


@pytest.mark.parametrize(("document", "request_", "response"), CASES)
def test_policies_allow_or_deny(document: dict[str, Any], request_: AccessRequest, response: bool) -> None:
    assert allows([document], request_) is response


TRUSTS = [
    ({"Service": "sagemaker.amazonaws.com"}, "sts:AssumeRole", True),
    ({"Service": ["ec2.amazonaws.com", "sagemaker.amazonaws.com"]}, ["sts:AssumeRole"], True),
    ({"Service": "ec2.amazonaws.com"}, "sts:AssumeRole", False),
    ({"AWS": "arn:aws:iam::123456789012:root"}, "sts:AssumeRole", False),
    ({"Service": "sagemaker.amazonaws.com"}, "sts:TagSession", False),
    ("*", "sts:*", True),
]


@pytest.mark.parametrize(("principal", "action", "response"), TRUSTS)
def test_trust_policy_allows_or_denies_the_service(principal: Any, action: Any, response: bool) -> None:
    statement = {"Effect": "Allow", "Principal": principal, "Action": action}
    assert trusts(policy(statement), "sagemaker.amazonaws.com") is response
