"""The policies of `lmi iam` suffice for a whole lifecycle, and every statement is needed. IAM is enforced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lmi_deploy.emulator.iam.operation_permissions import SCALING_ROLE
from tests.support.adapters import write_adapter
from tests.support.aws_requests import listed, recorded
from tests.support.emulator_process import Emulated
from tests.support.least_privilege import (
    ROLE,
    SCHEDULER_ROLE,
    SIMULATES,
    Principal,
    ReducedPermissions,
    clear_buckets,
    names,
    policies_of,
    settle,
)

pytestmark = pytest.mark.landing

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
LATER = "scheduled: {later: {schedule: cron(0 8 ? * * 2199), max: 1}}"
SCALING = f"autoscaling: {{min: 1, max: 2, invocations_per_instance: 60, {LATER}}}"
SCALED = f"endpoint: {{role: serving, tags: {{team: blue}}, {SCALING}}}\n"
ENCRYPTED = f"endpoint: {{role: serving, kms_key: '{KEY}', network_isolation: true, {VPC}}}\n"
WHOLE = f"ttl: 8h\nendpoint: {{role: serving, scheduler_role: ending, kms_key: '{KEY}', {VPC}, {SCALING}}}\n"
EXPIRING = "ttl: 8h\nendpoint: {role: serving, scheduler_role: ending}\n"
QUEUED = "endpoint: {role: serving, asynchronous: {}}\n"
STEPPED = (
    "endpoint: {role: serving, autoscaling: {min: 1, max: 2, steps: {queue: {namespace: Chat, metric: Queue, "
    "threshold: 20, adjustments: {0: '+1'}}}}}\n"
)
ALARMED = "endpoint: {role: serving, alarms: {topic: 'arn:aws:sns:us-east-1:123456789012:on-call'}}\n"
SHARED = "endpoint: {role: serving, share: team, component: {memory_mb: 1024}}\n"
ASLEEP = (
    "endpoint: {role: serving, share: team, component: {memory_mb: 1024}, instance_scaling: {min: 0, max: 2}, "
    f"autoscaling: {{min: 0, max: 2, concurrent_requests_per_model: 4, {LATER}}}}}\n"
)
ADAPTED = (
    PLAIN.replace("model.py", "adapted.py") + f"adapters: {{french: ./french, danish: ./danish}}\n{SHARED}"
)
REGISTERS = "\n\ndef register_adapter(inputs):\n    return None\n\n\ndef unregister_adapter(inputs):\n    return None\n"
CANDIDATE = "endpoint: {role: serving, candidate: {set: {container.environment.SECOND: 'yes'}, traffic_percent: 10}}\n"
PACKED = "weights: {deliver: artifact}\nendpoint: {role: serving, bucket: a-bucket-of-ours}\n"
IN_PLACE = (
    PLAIN.replace("./model", "s3://a-bucket-of-ours/models/echo")
    + "weights: {in_place: true}\nendpoint: {role: serving}\n"
)
UNCHECKED = ReducedPermissions("deployer", "CheckRights", SIMULATES)
BODY = ("--body", '{"inputs": "x"}')
DOWN = ("down", "echo", "--yes", "--purge", "--logs")


@dataclass(frozen=True)
class Lifecycle:
    """A recipe, its commands from the first `up` to the last `down`, and the statements to check (none:
    all)."""

    recipe: str
    commands: tuple[tuple[str, ...], ...]
    only: tuple[str, ...] = ()
    logs: str = "Endpoints"
    """Where the log group is, as SageMaker names it."""


PLAN = ("plan", "r.yaml")
UP = ("up", "r.yaml", "--yes")
LIFECYCLES = {
    "scaled": Lifecycle(
        PLAIN + SCALED,
        (
            PLAN,
            UP,
            (*UP, "--set", "endpoint.count=2"),
            ("scale", "echo", "1", "--yes"),
            ("status", "echo"),
            ("logs", "echo"),
            ("ls", "--all"),
            ("ls", "--all", "--all-regions"),
            ("invoke", "echo", *BODY),
            ("invoke", "echo", "--stream", *BODY),
            ("rollback", "echo", "--yes"),
            ("up", "unscaled.yaml", "--yes"),
            ("extend", "echo", "2h"),
            ("gc", "--yes"),
            DOWN,
        ),
    ),
    "sealed": Lifecycle(PLAIN + ENCRYPTED, (PLAN, UP, ("status", "echo"), DOWN), ("UseKey", "LendKey")),
    "whole": Lifecycle(PLAIN + WHOLE, (PLAN,)),
    "expiring": Lifecycle(
        PLAIN + EXPIRING,
        (UP, ("extend", "echo", "2h"), ("up", "unscaled.yaml", "--yes"), UP, DOWN),
        ("ScheduleDeletion", "HandOverSchedulerRole"),
    ),
    "queued": Lifecycle(
        PLAIN + QUEUED, (UP, ("invoke", "echo", "--async", *BODY), DOWN), ("InvokeAsync", "UseRequests")
    ),
    "watched": Lifecycle(
        PLAIN + "endpoint: {role: serving}\n", (UP, ("dashboard", "echo"), DOWN), ("ShowDashboard",)
    ),
    "stepped": Lifecycle(
        PLAIN + STEPPED,
        (UP, ("up", "unscaled.yaml", "--yes"), UP, DOWN),
        ("KeepAlarms", "EndAlarms", "LookAtScaling", "SetScaling"),
    ),
    "alarmed": Lifecycle(
        PLAIN + ALARMED,
        (PLAN, UP, (*UP, "--set", "endpoint.alarms.memory.enabled=false"), DOWN),
        ("KeepAlarms", "TagAlarms", "SeeTopic", "EndAlarms", "LookAtScaling"),
    ),
    "shared": Lifecycle(
        PLAIN + SHARED,
        (UP, ("up", "r.yaml", "--yes", "--set", "endpoint.component.copies=2"), ("logs", "echo"), DOWN),
        ("UseComponent", "LookAtComponents", "ListComponents"),
        logs="InferenceComponents",
    ),
    "asleep": Lifecycle(
        PLAIN + ASLEEP,
        (UP, ("scale", "echo", "0", "--yes"), ("scale", "echo", "1", "--yes"), DOWN),
        ("UseComponent", "SetScaling"),
        logs="InferenceComponents",
    ),
    "adapted": Lifecycle(
        ADAPTED,
        (UP, ("up", "less.yaml", "--yes"), DOWN),
        ("UseComponent",),
        logs="InferenceComponents",
    ),
    "candidate": Lifecycle(
        PLAIN + CANDIDATE,
        (PLAN, UP, (*UP, "--set", "endpoint.candidate.traffic_percent=30"), DOWN),
        ("UseEndpoint",),
    ),
    "packed": Lifecycle(PLAIN + PACKED, (UP, DOWN), ("WriteOwn",)),
    "in-place": Lifecycle(IN_PLACE, (UP, ("status", "echo"), DOWN), ("ListSource", "ReadSource")),
}
LOCKED = ("up", "rollback", "scale", "extend", "gc", "dashboard")
DOES_WITHOUT = {"logs:DescribeLogGroups", "logs:FilterLogEvents", "s3:DeleteObject"}
"""A change succeeds without these: there is no log to read, and the lock expires."""
REPORTED_OTHERWISE = {
    "cloudwatch:GetMetricData": "traffic  unknown",
    "pricing:GetProducts": "as public repositories quote it",
    "sagemaker:ListEndpoints": "the standing of endpoints is unknown",
}
"""The message when lmi continues without a permission."""
NOT_MET = {
    "s3:AbortMultipartUpload": "uploads in parts, which small files do not need",
    "s3:ListMultipartUploadParts": "an upload in parts that was cut off",
    "s3:DeleteBucket": "a bucket that could not be made whole",
    "s3:GetObject": "records of other deployments",
    "cloudwatch:ListMetrics": "`gc --idle` with an endpoint that is older than its window",
    "s3:GetLifecycleConfiguration": "advice about uploads, which nobody misses",
    "sagemaker:ListProcessingJobs": "many jobs that have ended",
    "sagemaker:ListOptimizationJobs": "the same of compile jobs",
    "sagemaker:ListTags": "where the tag search lags behind",
    "servicequotas:ListAWSDefaultServiceQuotas": "an instance type whose quota was never changed",
    "sagemaker:CallWithBearerToken": "requests with a token, which lmi does not send itself",
    "application-autoscaling:DescribeScalingPolicies": "the end of a deployment that is scaled",
    "application-autoscaling:DeleteScheduledAction": "an update without a scheduled action",
}
"""Each has a test of its own (test_rare_permissions.py)."""
OF_WATCHED = {"cloudwatch:DeleteDashboards", "cloudwatch:GetDashboard", "cloudwatch:PutDashboard"}
"""The lifecycle `watched` checks them: in another one, a `down` that is denied something else deletes the dashboard."""


Begin = Callable[[str], tuple[Lifecycle, Principal]]


@pytest.fixture
def begin(
    enforcing: Emulated,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Begin:
    """Writes the recipe of a lifecycle, and creates a user with the permissions printed for it."""

    def runs(name: str) -> tuple[Lifecycle, Principal]:
        settle(enforcing, monkeypatch, tmp_path)
        run = LIFECYCLES[name]
        Path("r.yaml").write_text(run.recipe)
        Path("unscaled.yaml").write_text(PLAIN + "endpoint: {role: serving}\nttl: 1h\n")
        Path("adapted.py").write_text(Path("model.py").read_text() + REGISTERS)
        write_adapter(Path("french"))
        write_adapter(Path("danish"), rank=8)
        Path("less.yaml").write_text(run.recipe.replace(", danish: ./danish", ""))
        _create_foreign_resources(enforcing, run)
        principal = Principal(enforcing, capsys, monkeypatch)
        policies_of(principal, "r.yaml")
        principal.enter()
        return run, principal

    return runs


def _create_foreign_resources(aws: Emulated, run: Lifecycle) -> None:
    """A foreign bucket with a model, a topic, and a log group, which containers would create."""
    aws.client("sns").create_topic(Name="on-call")
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="a-bucket-of-ours")
    for path in Path("model").iterdir():
        s3.put_object(Bucket="a-bucket-of-ours", Key=f"models/echo/{path.name}", Body=path.read_bytes())
    logs, group = aws.client("logs"), f"/aws/sagemaker/{run.logs}/echo"
    if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
        logs.create_log_group(logGroupName=group)


@pytest.mark.parametrize(
    "name",
    [
        "scaled",
        "sealed",
        "expiring",
        "queued",
        "watched",
        "alarmed",
        "stepped",
        "shared",
        "asleep",
        "adapted",
        "candidate",
        "packed",
        "in-place",
    ],
)
def test_printed_policies_suffice_and_every_statement_is_needed(begin: Begin, name: str) -> None:
    run, ada = begin(name)
    expected = _run_lifecycle(run, ada)
    missing = {less.action for less in set(ada.every("deployer")) - set(expected)}
    assert recorded() - listed() == set()
    if not run.only:
        known = {*NOT_MET, *OF_WATCHED}
        assert missing <= known, missing - known
    _reset(ada.aws, run)
    for number, command in enumerate(run.commands):
        local = [less for less, first in expected.items() if first == number and _is_checked(less, run)]
        _require_each_to_be_needed(ada, command, local)
        ada.grant()
        code, output = ada.lmi(*command)
        assert code == 0, (command, output)


def _reset(aws: Emulated, run: Lifecycle) -> None:
    clear_buckets(aws)
    _create_foreign_resources(aws, run)
    iam = aws.client("iam")
    if SCALING_ROLE in [role["RoleName"] for role in iam.list_roles()["Roles"]]:
        iam.delete_role(RoleName=SCALING_ROLE)


def _run_lifecycle(run: Lifecycle, ada: Principal) -> dict[ReducedPermissions, int]:
    """A lifecycle with all permissions; returns which one first decides in which command."""
    expected: dict[ReducedPermissions, int] = {}
    for number, command in enumerate(run.commands):
        ada.enter()
        ada.grant()
        code, output = ada.lmi(*command)
        assert code == 0, (command, output)
        assert "not authorized" not in output, (command, output)
        assert "not checked" not in output, (command, output)
        for less in ada.decisive(ada.requests):
            if command[0] not in LOCKED or less.action not in DOES_WITHOUT:
                expected.setdefault(less, number)
    return expected


def _is_checked(less: ReducedPermissions, run: Lifecycle) -> bool:
    return not run.only or less.sid in run.only


def _require_each_to_be_needed(
    ada: Principal, command: tuple[str, ...], local: list[ReducedPermissions]
) -> None:
    """Without the preflight, so that AWS itself refuses. A teardown continues after a denied delete, so it
    is tested with all of them at once."""
    together = [less for less in local if command[0] == "down" and _is_tolerated(less)]
    for each in [*([less] for less in local if less not in together), *([together] if together else [])]:
        ada.grant(*each, UNCHECKED)
        code, output = ada.lmi(*command)
        _unlock(ada.aws)
        for less in each:
            otherwise = REPORTED_OTHERWISE.get(less.action)
            result = otherwise in output if otherwise else names(output, less, ada.name)
            assert result, (command, str(less), output)
            assert code != 0 or otherwise or "not checked" in output, (command, str(less), output)


def _is_tolerated(less: ReducedPermissions) -> bool:
    """Nothing of an endpoint is deleted while it exists."""
    return "Delete" in less.action and less.action != "sagemaker:DeleteEndpoint"


@pytest.mark.parametrize("part", ["deployer", "execution", "scheduler"])
def test_every_missing_permission_is_reported_before_anything_is_created(begin: Begin, part: str) -> None:
    """All of them, including those of services that are not emulated: IAM simulates them."""
    _, ada = begin("whole")
    who = {"execution": f"role/{ROLE}", "scheduler": f"role/{SCHEDULER_ROLE}"}.get(part, ada.name)
    for less in ada.every(part):
        ada.grant(less)
        code, output = ada.lmi(*PLAN)
        assert less.action in output, (str(less), output)
        assert who in output or "these credentials" in output, (str(less), output)
        assert code in (0, 1), (str(less), output)
    assert ada.aws.client("sagemaker").list_models()["Models"] == []


def _unlock(aws: Emulated) -> None:
    """Without the permission to delete, the lock stays. A lock of an ended process is taken over; this
    process runs on."""
    s3 = aws.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        s3.delete_object(Bucket=bucket["Name"], Key="deployments/echo/lock.json")
