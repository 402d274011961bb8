"""EventBridge Scheduler on the emulator: a one-time schedule deletes an endpoint with the permissions of its role."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from lmi_deploy.domain.sagemaker.expiry import parse_moment
from lmi_deploy.errors import Refused, RoleNotAssumable
from lmi_deploy.ports.cloud import Cloud
from tests.emulator.test_autoscaling import live
from tests.support.emulator_process import ACCOUNT, Emulated

TARGET = "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint"
TIMEOUT = 30.0


@pytest.fixture(scope="module")
def role(aws: Emulated) -> str:
    return _role(aws, "ending", "scheduler.amazonaws.com", "sagemaker:DeleteEndpoint")


def _role(aws: Emulated, name: str, service: str, action: str) -> str:
    iam = aws.client("iam")
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    arn: str = iam.create_role(
        RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    )["Role"]["Arn"]
    grant = {"Effect": "Allow", "Action": action, "Resource": "*"}
    iam.put_role_policy(
        RoleName=name,
        PolicyName="own",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [grant]}),
    )
    return arn


def in_seconds(aws: Emulated, seconds: float) -> str:
    return datetime.fromtimestamp(aws.get("/_clock")["now"] + seconds, UTC).isoformat(timespec="seconds")


def status(aws: Emulated, name: str) -> str:
    """Empty if it is gone."""
    found = aws.client("sagemaker").list_endpoints(NameContains=name)["Endpoints"]
    return found[0]["EndpointStatus"] if found else ""


def until_gone(aws: Emulated, name: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while status(aws, name):
        aws.advance(20)
        assert time.monotonic() < deadline, aws.log.read_text()
        time.sleep(0.02)


def test_endpoint_is_deleted_at_its_time_and_the_schedule_with_it(
    aws: Emulated, cloud: Cloud, role: str
) -> None:
    live(aws, "first")
    at = in_seconds(aws, 3600)
    cloud.schedules.delete_at("first", at, role=role)
    found = cloud.schedules.deletion("first")
    assert found is not None
    assert (parse_moment(found.at), found.role, found.enabled) == (parse_moment(at), role, True)
    aws.advance(3500)
    time.sleep(0.2)
    assert status(aws, "first") == "InService"
    aws.advance(120)
    until_gone(aws, "first")
    assert cloud.schedules.deletion("first") is None


def test_moved_schedule_keeps_its_name_and_removal_is_final(aws: Emulated, cloud: Cloud, role: str) -> None:
    live(aws, "moved")
    cloud.schedules.delete_at("moved", in_seconds(aws, 60), role=role)
    later = in_seconds(aws, 7200)
    cloud.schedules.delete_at("moved", later, role=role)
    assert [each.at for each in (cloud.schedules.deletion("moved"),) if each] == [
        (parse_moment(later) or datetime.min).astimezone(UTC).isoformat()
    ]
    cloud.schedules.remove("moved")
    cloud.schedules.remove("moved")
    aws.advance(9000)
    time.sleep(0.2)
    assert status(aws, "moved") == "InService"


def test_role_without_the_permission_deletes_nothing_and_is_tried_again(aws: Emulated, cloud: Cloud) -> None:
    live(aws, "weak")
    role = _role(aws, "weak", "scheduler.amazonaws.com", "s3:GetObject")
    cloud.schedules.delete_at("weak", in_seconds(aws, 60), role=role)
    aws.advance(600)
    time.sleep(0.2)
    assert status(aws, "weak") == "InService"
    assert "may not sagemaker:DeleteEndpoint" in aws.log.read_text()
    _grant(aws, "weak")
    until_gone(aws, "weak")


def _grant(aws: Emulated, name: str) -> None:
    grant = {"Effect": "Allow", "Action": "sagemaker:DeleteEndpoint", "Resource": "*"}
    aws.client("iam").put_role_policy(
        RoleName=name,
        PolicyName="more",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [grant]}),
    )


def test_role_that_trusts_another_service_is_refused(aws: Emulated, cloud: Cloud) -> None:
    role = _role(aws, "other", "sagemaker.amazonaws.com", "sagemaker:DeleteEndpoint")
    with pytest.raises(RoleNotAssumable, match="must allow AWS EventBridge Scheduler to assume the role"):
        cloud.schedules.delete_at("trust", in_seconds(aws, 60), role=role)
    assert "does not let scheduler" in cloud.roles.assumable(role, "scheduler.amazonaws.com")


def test_schedule_that_does_something_else_is_not_ours(aws: Emulated, cloud: Cloud, role: str) -> None:
    target: dict[str, Any] = {"Arn": TARGET, "RoleArn": role, "Input": '{"EndpointName": "prod"}'}
    scheduler = aws.client("scheduler")
    scheduler.create_schedule(
        Name="lmi-foreign",
        ScheduleExpression="at(2099-01-01T00:00:00)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target=target,
    )
    assert cloud.schedules.deletion("foreign") is None
    with pytest.raises(Refused, match="does not delete foreign"):
        cloud.schedules.delete_at("foreign", in_seconds(aws, 60), role=role)
    cloud.schedules.remove("foreign")
    assert scheduler.get_schedule(Name="lmi-foreign")["Target"]["Input"] == '{"EndpointName": "prod"}'
    with pytest.raises(scheduler.exceptions.ConflictException):
        scheduler.create_schedule(
            Name="lmi-foreign",
            ScheduleExpression="at(2099-01-01T00:00:00)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target=target,
        )
    assert ACCOUNT in scheduler.get_schedule(Name="lmi-foreign")["Arn"]
