"""Enforced permissions: a denial names the missing statement, and the simulation finds the same one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lmi_deploy.aws.iam import IamRoles
from lmi_deploy.aws.sagemaker.hosting import SageMakerHosting
from lmi_deploy.domain.permissions import Permission
from lmi_deploy.errors import AccessError
from tests.support.emulator_process import ACCOUNT, REGION, Emulated, emulator
from tests.support.sagemaker_fixtures import FULL_SPEED, TAGS, Recorder, model_settings

MODEL = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:model/mine"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/execution"
PASS = Permission(action="iam:PassRole", resource=ROLE)
CREATE = Permission(action="sagemaker:CreateModel", resource=MODEL)
DELETE = Permission(action="sagemaker:DeleteModel", resource=MODEL)


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("strict"), *FULL_SPEED, "--enforce-iam") as running:
        yield running


def user(aws: Emulated, name: str, *statements: dict[str, Any]) -> tuple[str, Any]:
    """The ARN and the access key of a user with these permissions."""
    iam = aws.client("iam")
    arn = iam.create_user(UserName=name)["User"]["Arn"]
    policy = {"Version": "2012-10-17", "Statement": list(statements)}
    iam.put_user_policy(UserName=name, PolicyName="rights", PolicyDocument=json.dumps(policy))
    return arn, iam.create_access_key(UserName=name)["AccessKey"]


def allow(action: str, resource: str = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def test_denial_names_the_missing_statement_and_is_not_retried(aws: Emulated, recorder: Recorder) -> None:
    arn, recorder.key = user(aws, "ann", allow("sagemaker:DescribeModel"))
    hosting = SageMakerHosting(recorder.access(), account=ACCOUNT)
    assert hosting.model("mine") is None
    with pytest.raises(AccessError) as caught:
        hosting.create_model("mine", model_settings(aws), TAGS)
    assert (
        caught.value.message == f"model mine: access denied: {arn} may not sagemaker:CreateModel on {MODEL}"
    )
    assert json.loads(caught.value.hint.partition("needs ")[2]) == allow("sagemaker:CreateModel", MODEL)
    assert recorder.notes == []


def test_missing_permissions_are_found_by_simulation(aws: Emulated, recorder: Recorder) -> None:
    passed = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    arn, _ = user(
        aws, "bob", allow("sagemaker:CreateModel", MODEL), allow("iam:PassRole", ROLE, Condition=passed)
    )
    roles = IamRoles(recorder.access())
    assert roles.lacking(arn, [CREATE, DELETE, PASS]) == (DELETE,)
    assert roles.lacking(arn, [CREATE, PASS]) == ()


def test_simulation_includes_permission_conditions(aws: Emulated, recorder: Recorder) -> None:
    when = {"StringEquals": {"iam:AWSServiceName": "scaling.amazonaws.com"}}
    arn, _ = user(aws, "cleo", allow("iam:CreateServiceLinkedRole", Condition=when))
    link = Permission(action="iam:CreateServiceLinkedRole", resource="*")
    suggestion = replace(link, context=(("iam:AWSServiceName", "scaling.amazonaws.com"),))
    assert IamRoles(recorder.access()).lacking(arn, [link, suggestion]) == (link,)


def test_session_has_the_permissions_of_its_role(aws: Emulated, recorder: Recorder) -> None:
    iam = aws.client("iam")
    trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sts:*"}]}
    iam.create_role(RoleName="deployer", AssumeRolePolicyDocument=json.dumps(trust), Path="/team/")
    policy = {"Version": "2012-10-17", "Statement": [allow("sagemaker:*")]}
    iam.put_role_policy(RoleName="deployer", PolicyName="p", PolicyDocument=json.dumps(policy))
    session = f"arn:aws:sts::{ACCOUNT}:assumed-role/deployer/ann"
    assert IamRoles(recorder.access()).lacking(session, [CREATE, PASS]) == (PASS,)


def test_denied_simulation_is_reported(aws: Emulated, recorder: Recorder) -> None:
    arn, recorder.key = user(aws, "eve", allow("sagemaker:*"))
    with pytest.raises(AccessError, match="may not iam:SimulatePrincipalPolicy"):
        IamRoles(recorder.access()).lacking(arn, [CREATE])


def test_root_user_has_every_permission(aws: Emulated, recorder: Recorder) -> None:
    anybody = aws.client("sts").get_caller_identity()["Arn"]
    assert IamRoles(recorder.access()).lacking(anybody, [CREATE, PASS]) == ()
