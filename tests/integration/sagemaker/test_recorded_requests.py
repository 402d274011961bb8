"""A whole lifecycle is recorded: each of its requests to AWS is in docs/reference/aws-requests.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.sagemaker.test_least_privilege import PLAIN, SCALED
from tests.integration.sagemaker.test_rare_permissions import BUCKET, write_large
from tests.support.aws_requests import listed, recorded
from tests.support.emulator_process import Emulated, emulator
from tests.support.least_privilege import Principal, policies_of, settle

UP = ("up", "r.yaml", "--yes")
BODY = ("--body", '{"inputs": "x"}')
OTHER = "a-bucket-of-ours"
BEFORE = (
    ("iam", "r.yaml"),
    ("plan", "r.yaml"),
    UP,
    (*UP, "--set", "endpoint.count=2"),
    ("status", "echo"),
    ("logs", "echo"),
    ("ls", "--all"),
    ("invoke", "echo", *BODY),
    ("invoke", "echo", "--stream", *BODY),
    ("rollback", "echo", "--yes"),
    ("weights", "ls"),
)
AFTER = (("extend", "echo", "2h"), ("gc", "--yes"), ("down", "echo", "--yes", "--purge", "--logs"))
ALSO = {
    "s3 CreateBucket",
    "s3 CreateMultipartUpload",
    "s3 CopyObject",
    "sagemaker CreateModel",
    "sagemaker UpdateEndpoint",
    "sagemaker-runtime InvokeEndpointWithResponseStream",
    "application-auto-scaling PutScalingPolicy",
}
"""Requests that the lifecycle must have sent; without them it would prove little."""


def test_every_recorded_request_is_in_the_documented_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with emulator(tmp_path, "--speed", "1000000") as aws:
        settle(aws, monkeypatch, tmp_path)
        aws.client("s3").create_bucket(Bucket=OTHER)
        aws.client("logs").create_log_group(logGroupName="/aws/sagemaker/Endpoints/echo")
        write_large(Path("model/model.safetensors"))
        Path("r.yaml").write_text(PLAIN + SCALED + "ttl: 1h\n")
        principal = Principal(aws, capsys, monkeypatch)
        policies_of(principal, "r.yaml")
        principal.enter()
        principal.grant()
        done(principal, *BEFORE)
        name = pushed(aws)
        done(principal, ("weights", "copy", name, "--to-bucket", OTHER))
        done(principal, ("weights", "rm", name, "--bucket", OTHER, "--yes"))
        done(principal, *AFTER)
    assert recorded() - listed() == set()
    assert ALSO - recorded() == set()


def done(principal: Principal, *commands: tuple[str, ...]) -> None:
    for command in commands:
        code, output = principal.lmi(*command)
        assert code == 0, (command, output)


def pushed(aws: Emulated) -> str:
    """The name of the weights in the default bucket."""
    (found,) = aws.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="manifests/")["Contents"]
    return str(found["Key"]).removeprefix("manifests/").removesuffix(".json")
