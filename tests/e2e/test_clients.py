"""Clients of other vendors against `lmi emulator`, unchanged: they get an endpoint URL, keys and a region,
nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.targets.sagemaker.request_examples import aws_cli_command
from tests.server.handlers import MANY_WAYS
from tests.support.clients import client_environment, clients, terraform_environment
from tests.support.emulator_process import IMAGE, TRUST, Emulated, emulator

pytestmark = pytest.mark.landing

HERE = Path(__file__).parent / "clients"
SOURCE = Path(__file__).resolve().parents[2] / "src"
PROGRAM_SECONDS = 120
Run = Callable[..., str]


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "1000000", containers=True) as running:
        yield running


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "serving.properties").write_text("engine=Python\nminWorkers=1\nmaxWorkers=1\n")
    (folder / "model.py").write_text(MANY_WAYS)
    return folder


@pytest.fixture
def run(aws: Emulated, tmp_path: Path) -> Run:
    """stdout of a program that must succeed."""

    def result(command: Sequence[str | Path], *, good: tuple[int, ...] = (0,), **more: str) -> str:
        done = subprocess.run(
            [str(word) for word in command],
            env=client_environment(aws.url, aws.keys, tmp_path, **more),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROGRAM_SECONDS,
        )
        assert done.returncode in good, f"{command}\n{done.stdout}{done.stderr}\n{aws.log.read_text()}"
        return done.stdout

    return result


def test_boto3_deploys_updates_and_deletes(run: Run, model: Path) -> None:
    result = json.loads(run([clients() / "python", HERE / "with_boto3.py", model, IMAGE]))
    assert result == {
        "answer": "hello",
        "streamed": ["t0", "t1", "t2"],
        "config": "by-boto3-2",
        "answer_after": "hello",
        "gone": "ValidationException",
    }


def test_sagemaker_core_deploys_updates_and_deletes(run: Run, aws: Emulated, model: Path) -> None:
    role = aws.role("by-core")
    uri = aws.upload("core", {file.name: file.read_bytes() for file in model.iterdir()}, bucket="by-core")
    output = run([clients() / "python", HERE / "with_sagemaker_core.py", role, uri, IMAGE])
    result = json.loads(output.splitlines()[-1])
    assert result == {"answer": "hello", "config": "by-core-2", "answer_after": "hello", "left": []}


@pytest.mark.parametrize("session", [{}, {"AWS_SESSION_TOKEN": "of+a/role=="}], ids=["user", "role"])
def test_bearer_token_equals_that_of_sagemaker_core(session: dict[str, str], tmp_path: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "not/a+secret", **session}
    environ = client_environment("http://127.0.0.1:1", keys, tmp_path, PYTHONPATH=str(SOURCE))
    command = [str(clients() / "python"), str(HERE / "with_token_generator.py"), "900"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert result["ours"] == result["theirs"]
    assert result["ours"].startswith("sagemaker-api-key-")


def test_aws_cli_deploys_updates_and_deletes(run: Run, model: Path, tmp_path: Path) -> None:
    def cli(*words: str | Path) -> Any:
        output = run([clients() / "aws", *words, "--output", "json"])
        return json.loads(output) if output.startswith(("{", "[", '"')) else output

    def config(name: str) -> None:
        variant = "VariantName=AllTraffic,ModelName=by-cli,InstanceType=ml.g5.xlarge,InitialInstanceCount=1"
        words = ("--endpoint-config-name", name, "--production-variants", variant)
        cli("sagemaker", "create-endpoint-config", *words)

    def invoke() -> str:
        requests = (
            "--content-type",
            "application/json",
            "--body",
            '{"do": "echo", "text": "hello"}',
            "answer",
        )
        cli("sagemaker-runtime", "invoke-endpoint", *named, *requests)
        return (tmp_path / "answer").read_text()

    named = ("--endpoint-name", "by-cli")
    trust = ("--assume-role-policy-document", json.dumps(TRUST))
    role = cli("iam", "create-role", "--role-name", "by-cli", *trust)["Role"]["Arn"]
    full = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"
    cli("iam", "attach-role-policy", "--role-name", "by-cli", "--policy-arn", full)
    run([clients() / "aws", "s3", "mb", "s3://by-cli"])
    run([clients() / "aws", "s3", "sync", model, "s3://by-cli/model/"])
    source = {"S3Uri": "s3://by-cli/model/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    container = json.dumps({"Image": IMAGE, "ModelDataSource": {"S3DataSource": source}})
    of_model = ("--model-name", "by-cli", "--execution-role-arn", role, "--primary-container", container)
    cli("sagemaker", "create-model", *of_model)
    config("by-cli-1")
    cli("sagemaker", "create-endpoint", *named, "--endpoint-config-name", "by-cli-1")
    cli("sagemaker", "wait", "endpoint-in-service", *named)
    assert invoke() == "hello"
    printed = aws_cli_command("by-cli", "us-east-1", "application/json", '{"do": "echo", "text": "it\'s"}')
    assert run(["sh", "-c", printed.replace("aws ", f"{clients()}/aws ", 1)]).startswith("it's")
    config("by-cli-2")
    cli("sagemaker", "update-endpoint", *named, "--endpoint-config-name", "by-cli-2")
    cli("sagemaker", "wait", "endpoint-in-service", *named)
    assert cli("sagemaker", "describe-endpoint", *named)["EndpointConfigName"] == "by-cli-2"
    assert invoke() == "hello"
    group = ("--log-group-name", "/aws/sagemaker/Endpoints/by-cli")
    logged = cli("logs", "filter-log-events", *group, "--query", "events[].message")
    assert any("ready model=model" in line for line in logged)
    cli("sagemaker", "delete-endpoint", *named)
    cli("sagemaker", "wait", "endpoint-deleted", *named)
    assert cli("sagemaker", "list-endpoints", "--name-contains", "by-cli")["Endpoints"] == []


@pytest.fixture
def terraform(run: Run, model: Path, tmp_path: Path) -> Run:
    """Terraform with its provider installed; skipped with the reason where either is missing."""
    shutil.copy(HERE / "main.tf", tmp_path)
    environment = terraform_environment(tmp_path)

    def result(word: str, *words: str, generation: str = "", good: tuple[int, ...] = (0,)) -> str:
        variables = [f"generation={generation}", f"folder={model}", f"image_tag={IMAGE.rpartition(':')[2]}"]
        chosen = [f"-var={each}" for each in variables] if generation else []
        command = ["terraform", word, "-no-color", "-input=false", *words, *chosen]
        return run(command, good=good, **environment)

    try:
        result("init")
    except (FileNotFoundError, AssertionError) as why:
        if os.environ.get("LMI_CI"):
            raise
        pytest.skip(f"no Terraform 1.5 or newer with hashicorp/aws: {str(why).strip().splitlines()[-1]}")
    return result


def test_terraform_applies_updates_and_destroys(terraform: Run, aws: Emulated) -> None:
    """Apply, plan without changes, update to a new configuration, plan without changes, destroy: no resource
    remains."""
    terraform("apply", "-auto-approve", generation="one")
    # With -detailed-exitcode, 0 means no changes.
    terraform("plan", "-detailed-exitcode", generation="one")
    assert aws.described("tf-endpoint")["EndpointConfigName"] == "tf-one"
    runtime = aws.client("sagemaker-runtime")
    requests = json.dumps({"do": "echo", "text": "hello"})
    response = runtime.invoke_endpoint(
        EndpointName="tf-endpoint", ContentType="application/json", Body=requests
    )
    assert response["Body"].read() == b"hello"
    terraform("apply", "-auto-approve", generation="two")
    terraform("plan", "-detailed-exitcode", generation="two")
    assert aws.described("tf-endpoint")["EndpointConfigName"] == "tf-two"
    terraform("destroy", "-auto-approve", generation="two")
    aws.wait_until_deleted("tf-endpoint")
    assert remaining_resources(aws) == []


def remaining_resources(aws: Emulated) -> list[str]:
    """The resources of main.tf that still exist."""
    sagemaker, logs = aws.client("sagemaker"), aws.client("logs")
    found = [
        *(item["EndpointName"] for item in sagemaker.list_endpoints()["Endpoints"]),
        *(item["EndpointConfigName"] for item in sagemaker.list_endpoint_configs()["EndpointConfigs"]),
        *(item["ModelName"] for item in sagemaker.list_models()["Models"]),
        *(item["RoleName"] for item in aws.client("iam").list_roles()["Roles"]),
        *(item["Name"] for item in aws.client("s3").list_buckets()["Buckets"]),
        *(item["AlarmName"] for item in aws.client("cloudwatch").describe_alarms()["MetricAlarms"]),
    ]
    groups = logs.describe_log_groups(logGroupNamePrefix="/aws/sagemaker/Endpoints/tf-other")["logGroups"]
    scaling = aws.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="sagemaker")
    extra = [*groups, *scaling["ScalableTargets"]]
    return [*(name for name in found if name.startswith("tf-")), *map(str, extra)]
