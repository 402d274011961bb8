"""What `lmi iam` prints is enough for a deployment's whole life, and each right less is missed: IAM enforced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lmi_deploy.emulator.iam.implied_permissions import SCALING_ROLE
from tests.support.aws_requests import listed, recorded
from tests.support.emulator_process import Emulated
from tests.support.least_privilege import (
    ROLE,
    SIMULATES,
    Less,
    Principal,
    clear_buckets,
    names,
    policies_of,
    settle,
)

PLAIN = """\
name: echo
model_id: ./model
engine: custom
instance_type: ml.m5.xlarge
handler: {file: model.py}
probe: {body: '{"inputs": "OK"}'}
"""
KEY = "arn:aws:kms:us-east-1:123456789012:key/12345678-1234-1234-1234-123456789012"
VPC = "vpc: {subnets: [subnet-12345678], security_groups: [sg-12345678]}"
SCALING = "autoscaling: {min: 1, max: 2, invocations_per_instance: 60}"
SCALED = f"endpoint: {{role: serving, tags: {{team: blue}}, {SCALING}}}\n"
SEALED = f"endpoint: {{role: serving, kms_key: '{KEY}', network_isolation: true, {VPC}}}\n"
WHOLE = f"endpoint: {{role: serving, kms_key: '{KEY}', {VPC}, {SCALING}}}\n"
PACKED = "weights: {deliver: artifact}\nendpoint: {role: serving, bucket: a-bucket-of-ours}\n"
UNCHECKED = Less("deployer", "CheckRights", SIMULATES)
BODY = ("--body", '{"inputs": "x"}')
DOWN = ("down", "echo", "--yes", "--purge", "--logs")


@dataclass(frozen=True)
class Life:
    """A recipe, what is done with it from nothing to nothing, and which statements are looked at (none: all)."""

    recipe: str
    commands: tuple[tuple[str, ...], ...]
    only: tuple[str, ...] = ()


PLAN = ("plan", "r.yaml")
UP = ("up", "r.yaml", "--yes")
LIVES = {
    "scaled": Life(
        PLAIN + SCALED,
        (
            PLAN,
            UP,
            (*UP, "--set", "endpoint.count=2"),
            ("status", "echo"),
            ("logs", "echo"),
            ("ls", "--all"),
            ("invoke", "echo", *BODY),
            ("invoke", "echo", "--stream", *BODY),
            ("rollback", "echo", "--yes"),
            ("up", "unscaled.yaml", "--yes"),
            ("extend", "echo", "2h"),
            ("gc", "--yes"),
            DOWN,
        ),
    ),
    "sealed": Life(PLAIN + SEALED, (PLAN, UP, ("status", "echo"), DOWN), ("UseKey", "LendKey")),
    "whole": Life(PLAIN + WHOLE, (PLAN,)),
    "packed": Life(PLAIN + PACKED, (UP, DOWN), ("WriteOwn",)),
}
LOCKED = ("up", "rollback", "extend", "gc")
DOES_WITHOUT = {"logs:DescribeLogGroups", "logs:FilterLogEvents", "s3:DeleteObject"}
"""What changes something goes on without: there is no log to be seen, and the lock ends by itself."""
TOLD_OTHERWISE = {"pricing:GetProducts": "as public repositories quote it"}
"""What is said where something is done without."""
NOT_MET = {
    "s3:AbortMultipartUpload": "uploads in parts, which small files do not need",
    "s3:ListMultipartUploadParts": "an upload in parts that was cut off",
    "s3:DeleteBucket": "a bucket that could not be made whole",
    "s3:GetObject": "records of other deployments",
    "s3:GetLifecycleConfiguration": "advice about uploads, which nobody misses",
    "sagemaker:ListTags": "where the tag search lags behind",
    "servicequotas:ListAWSDefaultServiceQuotas": "an instance type whose quota was never changed",
    "application-autoscaling:DescribeScalingPolicies": "the end of a deployment that is scaled",
}
"""Each has a way of its own (test_seldom_rights.py)."""


Begin = Callable[[str], tuple[Life, Principal]]


@pytest.fixture
def begin(
    enforcing: Emulated,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Begin:
    """The recipe of a life in the folder, and a user with the rights that are printed for it."""

    def lives(name: str) -> tuple[Life, Principal]:
        settle(enforcing, monkeypatch, tmp_path)
        life = LIVES[name]
        Path("r.yaml").write_text(life.recipe)
        Path("unscaled.yaml").write_text(PLAIN + "endpoint: {role: serving}\nttl: 1h\n")
        _others(enforcing)
        principal = Principal(enforcing, capsys, monkeypatch)
        policies_of(principal, "r.yaml")
        principal.enter()
        return life, principal

    return lives


def _others(aws: Emulated) -> None:
    """A bucket that somebody made, and a log group, which comes with containers."""
    aws.client("s3").create_bucket(Bucket="a-bucket-of-ours")
    logs, group = aws.client("logs"), "/aws/sagemaker/Endpoints/echo"
    if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
        logs.create_log_group(logGroupName=group)


@pytest.mark.parametrize("name", ["scaled", "sealed", "packed"])
def test_what_is_printed_is_enough_and_each_right_less_is_missed(begin: Begin, name: str) -> None:
    life, ada = begin(name)
    wanted = _lived(life, ada)
    missing = {less.action for less in set(ada.every("deployer")) - set(wanted)}
    assert recorded() - listed() == set()
    if not life.only:
        assert missing <= set(NOT_MET), missing - set(NOT_MET)
    _begin_anew(ada.aws)
    for number, command in enumerate(life.commands):
        here = [less for less, first in wanted.items() if first == number and _is_looked_at(less, life)]
        _each_is_missed(ada, command, here)
        ada.grant()
        code, told = ada.lmi(*command)
        assert code == 0, (command, told)


def _begin_anew(aws: Emulated) -> None:
    clear_buckets(aws)
    _others(aws)
    iam = aws.client("iam")
    if SCALING_ROLE in [role["RoleName"] for role in iam.list_roles()["Roles"]]:
        iam.delete_role(RoleName=SCALING_ROLE)


def _lived(life: Life, ada: Principal) -> dict[Less, int]:
    """A whole life with all rights; which one decides in which of its commands, first."""
    wanted: dict[Less, int] = {}
    for number, command in enumerate(life.commands):
        ada.enter()
        ada.grant()
        code, told = ada.lmi(*command)
        assert code == 0, (command, told)
        assert "not authorized" not in told, (command, told)
        assert "not checked" not in told, (command, told)
        for less in ada.decisive(ada.asked):
            if command[0] not in LOCKED or less.action not in DOES_WITHOUT:
                wanted.setdefault(less, number)
    return wanted


def _is_looked_at(less: Less, life: Life) -> bool:
    return not life.only or less.sid in life.only


def _each_is_missed(ada: Principal, command: tuple[str, ...], here: list[Less]) -> None:
    """Without the check beforehand, so that AWS itself refuses. A teardown goes past what it may not delete:
    it is refused all of that at once."""
    together = [less for less in here if command[0] == "down" and _is_gone_past(less)]
    for each in [*([less] for less in here if less not in together), *([together] if together else [])]:
        ada.grant(*each, UNCHECKED)
        code, told = ada.lmi(*command)
        _unlock(ada.aws)
        for less in each:
            otherwise = TOLD_OTHERWISE.get(less.action)
            said = otherwise in told if otherwise else names(told, less, ada.name)
            assert said, (command, str(less), told)
            assert code != 0 or otherwise or "not checked" in told, (command, str(less), told)


def _is_gone_past(less: Less) -> bool:
    """Nothing of an endpoint goes while it stands."""
    return "Delete" in less.action and less.action != "sagemaker:DeleteEndpoint"


@pytest.mark.parametrize("part", ["deployer", "execution"])
def test_each_right_less_is_told_before_anything_is_made(begin: Begin, part: str) -> None:
    """All of them, those of services that are not emulated too: IAM is asked."""
    _, ada = begin("whole")
    who = ada.name if part == "deployer" else f"role/{ROLE}"
    for less in ada.every(part):
        ada.grant(less)
        code, told = ada.lmi(*PLAN)
        assert less.action in told, (str(less), told)
        assert who in told or "these credentials" in told, (str(less), told)
        assert code in (0, 1), (str(less), told)
    assert ada.aws.client("sagemaker").list_models()["Models"] == []


def _unlock(aws: Emulated) -> None:
    """Who may not delete leaves the lock behind. A process that ended is taken over from; ours lives on."""
    s3 = aws.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        s3.delete_object(Bucket=bucket["Name"], Key="deployments/echo/lock.json")
