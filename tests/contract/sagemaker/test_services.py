"""The other services: logs, prices, quotas, roles, secrets."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import pytest

from lmi_deploy.aws.client import AwsConnection
from lmi_deploy.aws.iam import IamRoles
from lmi_deploy.aws.logs import CloudWatchLogs
from lmi_deploy.aws.price_list import AwsPrices
from lmi_deploy.aws.quotas import AwsQuotas
from lmi_deploy.aws.secrets import read_secret
from lmi_deploy.composition.aws import open_cloud
from lmi_deploy.composition.weights import session_at
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.permissions import Permission
from lmi_deploy.errors import AccessError, NotFound, UsageRefused
from lmi_deploy.ports.cloud import Cloud
from tests.support.emulator_process import ACCOUNT, REGION, TRUST, Emulated
from tests.support.frozen_clock import FrozenClock
from tests.support.sagemaker_fixtures import Recorder

GROUP = "/aws/sagemaker/Endpoints/chat"


def put_lines(aws: Emulated, group: str, stream: str, *lines: tuple[int, str]) -> None:
    logs = aws.client("logs")
    for make in (
        lambda: logs.create_log_group(logGroupName=group),
        lambda: logs.create_log_stream(logGroupName=group, logStreamName=stream),
    ):
        try:
            make()
        except logs.exceptions.ResourceAlreadyExistsException:
            continue
    events = [{"timestamp": at, "message": text} for at, text in lines]
    logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)


def test_log_group_is_found_by_its_exact_name(aws: Emulated, cloud: Cloud) -> None:
    put_lines(aws, f"{GROUP}-2", "main/i-1", (1000, "other"))
    assert cloud.logs.group("chat") == ""
    put_lines(aws, GROUP, "main/i-1", (1000, "one"))
    assert cloud.logs.group("chat") == GROUP
    cloud.logs.remove(GROUP)
    cloud.logs.remove(GROUP)
    assert cloud.logs.group("chat") == ""
    assert cloud.logs.group("chat-2") == f"{GROUP}-2"


def test_all_streams_are_merged_by_time_to_the_last_page(aws: Emulated, cloud: Cloud) -> None:
    group = f"{GROUP}-many"
    first = tuple((2000 + 2 * number, f"a{number}") for number in range(6000))
    second = tuple((2001 + 2 * number, f"b{number}\n") for number in range(6000))
    put_lines(aws, group, "main/i-1", *first)
    put_lines(aws, group, "main/i-2", *second)
    lines = list(cloud.logs.lines(group))
    assert len(lines) == 12_000
    assert lines[:4] == ["a0", "b0", "a1", "b1"]
    assert lines[-1] == "b5999"
    assert list(cloud.logs.lines(group, start="1970-01-01T00:00:13.999+00:00"))[:1] == ["b5999"]


def test_followed_log_includes_late_lines(aws: Emulated, recorder: Recorder) -> None:
    logs, group = CloudWatchLogs(recorder.access()), f"{GROUP}-follow"
    follow = logs.follow(group)
    assert next(follow) == ""
    put_lines(aws, group, "main/i-1", (50_000, "one"), (60_000, "three"))
    assert [next(follow) for _ in range(3)] == ["one", "three", ""]
    put_lines(aws, group, "main/i-2", (55_000, "two, late"), (70_000, "\n"), (70_001, "four"))
    assert [next(follow) for _ in range(4)] == ["two, late", " ", "four", ""]
    assert next(follow) == ""
    assert 0 < recorder.clock.slept < 20


def test_price_is_looked_up_once_and_names_its_source(aws: Emulated, recorder: Recorder) -> None:
    requests: list[tuple[str, str]] = []

    def packaged(instance: str, region: str) -> Price | None:
        requests.append((instance, region))
        return Price(hourly=9.0, currency="USD", source="the packaged table")

    def prices(access: AwsConnection, region: str, partition: str = "aws") -> AwsPrices:
        return AwsPrices(access, region=region, partition=partition, known=packaged)

    listed = prices(recorder.access(), REGION)
    price = listed.hourly("ml.g5.xlarge")
    assert price is not None
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert price == Price(hourly=1.4084, currency="USD", source=f"AWS price list of {today}", date=today)
    aws.fault({"headers": {"X-Amz-Target": "GetProducts$"}, "do": {"answer": {"status": 403}}, "times": None})
    assert listed.hourly("ml.g5.xlarge") == price
    assert requests == []
    unlisted = listed.hourly("ml.g5.12xlarge")
    assert unlisted is not None
    assert unlisted.source == "the packaged table"
    aws.no_faults()
    assert prices(recorder.access(), "eu-west-1").hourly("ml.g5.xlarge") == unlisted
    assert prices(recorder.access(), "cn-north-1", "aws-cn").hourly("ml.g5.xlarge") == unlisted
    assert requests == [
        ("ml.g5.12xlarge", REGION),
        ("ml.g5.xlarge", "eu-west-1"),
        ("ml.g5.xlarge", "cn-north-1"),
    ]


def test_quota_lookup_reads_no_page_twice(aws: Emulated, recorder: Recorder) -> None:
    aws.post(f"/_quotas/{REGION}", {"ml.g5.4xlarge": 2})
    limits = AwsQuotas(recorder.access())
    quota = limits.endpoint_instances("ml.g5.4xlarge")
    assert quota is not None
    assert (quota.name, quota.value) == ("ml.g5.4xlarge for endpoint usage", 2)
    of_jobs = limits.processing_instances("ml.g5.4xlarge")
    assert of_jobs is not None
    assert (of_jobs.name, of_jobs.value) == ("ml.g5.4xlarge for processing job usage", 100)
    assert limits.processing_instances("ml.inf2.xlarge") is None
    aws.fault({"headers": {"X-Amz-Target": "ServiceQuotas$"}, "do": "drop", "times": None})
    assert limits.endpoint_instances("ml.g5.4xlarge") == quota


def test_denied_quota_lookup_is_reported(aws: Emulated, recorder: Recorder) -> None:
    response = {"answer": {"status": 400, "body": '{"__type": "AccessDeniedException", "message": ""}'}}
    aws.fault({"headers": {"X-Amz-Target": "ListServiceQuotas$"}, "do": response})
    with pytest.raises(AccessError, match="may not servicequotas:ListServiceQuotas"):
        AwsQuotas(recorder.access()).endpoint_instances("ml.g5.xlarge")


@pytest.mark.parametrize(
    ("trust", "why"),
    [
        (TRUST["Statement"], ""),
        (
            [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": ["a.amazonaws.com", "sagemaker.amazonaws.com"]},
                    "Action": ["sts:*"],
                }
            ],
            "",
        ),
        (
            [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
            "does not let sagemaker.amazonaws.com assume it",
        ),
        (
            [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": "sagemaker.amazonaws.com"},
                    "Action": "sts:TagSession",
                }
            ],
            "does not let",
        ),
        ([*TRUST["Statement"], {**TRUST["Statement"][0], "Effect": "Deny"}], "denies"),  # type: ignore[dict-item]
    ],
)
def test_trust_policy_decides_who_may_assume_a_role(
    aws: Emulated, cloud: Cloud, trust: object, why: str, request: pytest.FixtureRequest
) -> None:
    name = f"role-{abs(hash(json.dumps(trust)))}"
    document = {"Version": "2012-10-17", "Statement": trust}
    aws.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(document), Path="/team/")
    output = cloud.roles.assumable(f"arn:aws:iam::{ACCOUNT}:role/team/{name}")
    assert (why in output) if why else output == ""


def test_missing_role_is_reported(cloud: Cloud) -> None:
    with pytest.raises(NotFound, match="role nobody: not found") as caught:
        cloud.roles.assumable(f"arn:aws:iam::{ACCOUNT}:role/nobody")
    assert "lmi iam" in caught.value.hint


def test_secret_value_is_readable_but_never_printed(aws: Emulated, cloud: Cloud) -> None:
    secrets = aws.client("secretsmanager")
    arn = secrets.create_secret(Name="hub-token", SecretString=" hf_canary\n")["ARN"]
    secrets.create_secret(Name="binary", SecretBinary=b"x")
    assert cloud.secrets.exists("hub-token")
    assert cloud.secrets.exists(arn)
    assert not cloud.secrets.exists("nobody")
    session = session_at("", os.environ)
    token = read_secret(session, "hub-token")
    assert token.value == "hf_canary"
    assert "canary" not in f"{token} {token!r}"
    with pytest.raises(NotFound):
        read_secret(session, "nobody")
    with pytest.raises(UsageRefused, match="contains no text"):
        read_secret(session, "binary")
    secrets.delete_secret(SecretId="hub-token")
    assert not cloud.secrets.exists("hub-token")


def test_account_root_lacks_no_permission(recorder: Recorder) -> None:
    root = f"arn:aws:iam::{ACCOUNT}:root"
    assert IamRoles(recorder.access()).lacking(root, [Permission(action="s3:*", resource="*")]) == ()
    with pytest.raises(AccessError, match="cannot simulate"):
        IamRoles(recorder.access()).lacking(f"arn:aws:sts::{ACCOUNT}:federated-user/x", [])


def test_another_region_has_its_own_resources(aws: Emulated, chain: None) -> None:
    remote = open_cloud("eu-west-1", FrozenClock(), os.environ)
    assert remote.logs.group("chat") == ""
    assert remote.tagged.all() == ()
