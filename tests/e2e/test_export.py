"""What `lmi export` writes, in the tools that it is for: cfn-lint, `terraform fmt`, `validate`, `apply`, `destroy`.

The endpoints run on the emulator. It has no CloudFormation: a small program of these tests applies the template, one
call for each resource (tests/support/cloudformation_stack.py).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from lmi_deploy.composition.aws import open_cloud
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.targets.sagemaker.autoscaling import scaling_of
from tests.golden.conftest import EXPECTED
from tests.support.clients import client_environment, stack_checkers, terraform_environment
from tests.support.cloudformation_stack import CloudFormationStack
from tests.support.emulator_process import Emulated, emulator
from tests.support.frozen_clock import FrozenClock
from tests.support.least_privilege import clear_buckets, write_model
from tests.support.recipe_parsing import parse

pytestmark = pytest.mark.landing

GOLDEN = EXPECTED / "export"
SECONDS = 180
RECIPE = """\
name: chat
model_id: ./model
engine: custom
instance_type: ml.m5.xlarge
handler: {file: model.py}
probe: {body: '{"inputs": "OK"}'}
container: {environment: {GREETING: hello}}
endpoint:
  tags: {team: search}
  autoscaling: {min: 1, max: 3, invocations_per_instance: 60}
"""
SCALED = """\
  autoscaling:
    min: 1
    max: 3
    concurrent_requests_per_model: 8
    metric: {namespace: Chat, name: Queue, target: 10}
    scale_in_cooldown: 10m
    steps: {queue: {namespace: Chat, metric: Queue, threshold: 20, adjustments: {0: "+1", 50: "+2"}}}
    scheduled: {night: {schedule: "cron(0 20 ? * MON-FRI *)", timezone: Europe/Berlin, max: 2}}
"""
TO_ZERO = """\
  asynchronous: {max_concurrent_per_instance: 4}
  autoscaling: {min: 0, max: 3, backlog_per_instance: 5}
"""
HANDLER = """\
import os, pathlib
from djl_python import Input, Output


def handle(inputs: Input) -> Output:
    if inputs.is_empty():
        folder = pathlib.Path(inputs.get_properties().get("model_id"))
        handle.files = sorted(path.name for path in folder.iterdir())
        return None
    found = {"files": handle.files, "greeting": os.environ["GREETING"], "more": os.environ.get("MORE", "")}
    return Output().add_as_json(found)
"""
Lmi = Callable[..., str]


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "1000000", containers=True) as running:
        yield running


@pytest.fixture
def lmi_here(
    aws: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Lmi:
    """stdout of a command that ends with this code; the folder has a recipe and its model."""
    for name, value in aws.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    clear_buckets(aws)
    write_model(tmp_path / "model")
    Path("model.py").write_text(HANDLER)
    Path("chat.yaml").write_text(RECIPE)

    def command(*argv: str, code: int = 0) -> str:
        ended = run(lmi, list(argv))
        captured = capsys.readouterr()
        assert ended == code, captured.err
        return captured.out + (captured.err if code else "")

    return command


def invoked(aws: Emulated) -> dict[str, Any]:
    runtime = aws.client("sagemaker-runtime")
    response = runtime.invoke_endpoint(EndpointName="chat", ContentType="application/json", Body="{}")
    found = json.loads(response["Body"].read())
    assert "model.safetensors" in found.pop("files")
    return dict(found)


def resources(aws: Emulated) -> list[str]:
    """Everything of the stack that exists."""
    sagemaker, scaling = aws.client("sagemaker"), aws.client("application-autoscaling")
    of = {"ServiceNamespace": "sagemaker"}
    return [
        *(each["EndpointName"] for each in sagemaker.list_endpoints()["Endpoints"]),
        *(each["EndpointConfigName"] for each in sagemaker.list_endpoint_configs()["EndpointConfigs"]),
        *(each["ModelName"] for each in sagemaker.list_models()["Models"]),
        *(each["ResourceId"] for each in scaling.describe_scalable_targets(**of)["ScalableTargets"]),
        *(each["PolicyName"] for each in scaling.describe_scaling_policies(**of)["ScalingPolicies"]),
    ]


def registered(aws: Emulated) -> tuple[Scaling | None, list[str]]:
    """As `lmi plan` reads it, and the names of the alarms of step scaling."""
    alarms = aws.client("cloudwatch").describe_alarms(AlarmNamePrefix="chat-scale-")["MetricAlarms"]
    read = open_cloud("", FrozenClock(), os.environ).scalers.scaling("chat")
    return read, [each["AlarmName"] for each in alarms]


def desired() -> Scaling | None:
    """What `lmi up` would register."""
    return scaling_of(parse(Path("chat.yaml").read_text(), "chat.yaml"))


def in_service(aws: Emulated) -> str:
    """The endpoint config that it serves with."""
    deadline = time.monotonic() + SECONDS
    while (found := aws.described("chat"))["EndpointStatus"] in ("Creating", "Updating"):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    assert found["EndpointStatus"] == "InService", found
    return str(found["EndpointConfigName"])


def foreign_to_lmi(command: Lmi) -> None:
    """The endpoint of the stack is not lmi's, and its weights stay."""
    assert "lmi did not create it" in command("up", "chat.yaml", "--yes", code=5)
    assert "lmi did not create it" in command("down", "chat", "--yes", "--purge", code=5)
    command("gc", "--yes", "--older-than", "0")
    listed = [json.loads(line) for line in command("weights", "ls", "--json").splitlines()]
    [weights] = [line for line in listed if "used_by" in line]
    assert weights["used_by"] == "chat (exported)"
    assert "chat (exported) uses these weights" in command("weights", "rm", weights["name"], "--yes", code=5)


def test_cloudformation_stack_serves_updates_and_is_deleted(aws: Emulated, lmi_here: Lmi) -> None:
    export = ("export", "chat.yaml", "--format", "cloudformation", "--upload")
    text = lmi_here(*export)
    stack = CloudFormationStack(
        "stack", aws.client, lambda: in_service(aws), {"EnvironmentGreeting": "hello"}
    )
    stack.create(text)
    first = in_service(aws)
    assert invoked(aws) == {"greeting": "hello", "more": ""}
    assert len(resources(aws)) == 5
    foreign_to_lmi(lmi_here)
    assert invoked(aws) == {"greeting": "hello", "more": ""}
    more = ("--set", "container.environment={GREETING: hello, MORE: two}", "--environment-values")
    stack.parameters = {}
    stack.update(lmi_here(*export, *more))
    assert in_service(aws) != first
    assert invoked(aws) == {"greeting": "hello", "more": "two"}
    assert len(resources(aws)) == 5
    stack.delete()
    aws.wait_until_deleted("chat")
    assert resources(aws) == []


def test_terraform_stack_serves_updates_and_is_destroyed(
    aws: Emulated, lmi_here: Lmi, tmp_path: Path
) -> None:
    module = tmp_path / "terraform"
    terraform = terraform_in(module, aws, tmp_path)
    export = ("export", "chat.yaml", "--format", "terraform", "--upload", "--out", str(module))
    assert lmi_here(*export) == f"{module}/chat.tf\n"
    terraform("init")
    greeting = "-var=environment_greeting=hello"
    terraform("apply", "-auto-approve", greeting)
    # With -detailed-exitcode, 0 means no changes.
    terraform("plan", "-detailed-exitcode", greeting)
    first = in_service(aws)
    assert invoked(aws) == {"greeting": "hello", "more": ""}
    assert len(resources(aws)) == 5
    foreign_to_lmi(lmi_here)
    more = ("--set", "container.environment={GREETING: hello, MORE: two}", "--environment-values")
    lmi_here(*export, *more)
    terraform("apply", "-auto-approve")
    terraform("plan", "-detailed-exitcode")
    assert in_service(aws) != first
    assert invoked(aws) == {"greeting": "hello", "more": "two"}
    assert len(resources(aws)) == 5
    terraform("destroy", "-auto-approve")
    aws.wait_until_deleted("chat")
    assert resources(aws) == []


@pytest.fixture
def without_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulated]:
    """An emulator whose endpoints are in service at once."""
    (folder := tmp_path / "bare").mkdir()
    with emulator(folder, "--speed", "1000000") as running:
        for name, value in running.environment(tmp_path).items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.mark.parametrize(
    ("endpoint", "alarms"), [(SCALED, ["chat-scale-queue"]), (TO_ZERO, ["chat-scale-from-zero"])]
)
@pytest.mark.parametrize("format", ["cloudformation", "terraform"])
def test_stack_registers_the_scaling_that_up_would(
    lmi_here: Lmi, without_containers: Emulated, tmp_path: Path, format: str, endpoint: str, alarms: list[str]
) -> None:
    aws = without_containers
    Path("chat.yaml").write_text(RECIPE.partition("  autoscaling:")[0] + endpoint)
    values = ("--environment-values", "--upload")
    if format == "terraform":
        module = tmp_path / "terraform"
        terraform = terraform_in(module, aws, tmp_path)
        lmi_here("export", "chat.yaml", "--format", format, *values, "--out", str(module))
        terraform("init")
        terraform("apply", "-auto-approve")
        terraform("plan", "-detailed-exitcode")
    else:
        stack = CloudFormationStack("stack", aws.client, lambda: in_service(aws))
        stack.create(lmi_here("export", "chat.yaml", "--format", format, *values))
    assert registered(aws) == (desired(), alarms)
    if format == "terraform":
        terraform("destroy", "-auto-approve")
    else:
        stack.delete()
    aws.wait_until_deleted("chat")
    assert (resources(aws), registered(aws)) == ([], (None, []))


def terraform_in(module: Path, aws: Emulated, home: Path) -> Callable[..., str]:
    """Terraform in a folder; skipped with the reason where it or its provider is missing."""
    module.mkdir(parents=True, exist_ok=True)
    environment = client_environment(aws.url, aws.keys, home, **terraform_environment(home))

    def command(word: str, *words: str) -> str:
        argv = [
            "terraform",
            word,
            "-no-color",
            *([] if word == "fmt" or word == "validate" else ["-input=false"]),
        ]
        try:
            done = subprocess.run(
                [*argv, *words], cwd=module, env=environment, capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            done = subprocess.CompletedProcess(argv, 127, "", "terraform: not found")
        if word == "init" and done.returncode and not os.environ.get("LMI_CI"):
            pytest.skip(f"no Terraform 1.5 or newer with hashicorp/aws: {done.stderr.strip()[-200:]}")
        assert done.returncode == 0, (
            f"{argv} {words}\n{done.stdout}{done.stderr}\n{aws.log.read_text()[-4000:]}"
        )
        return done.stdout

    return command


def required(module: str) -> list[str]:
    """Its variables that have no default."""
    blocks = re.findall(r'^variable "(\w+)" \{\n(.*?)^\}', module, re.MULTILINE | re.DOTALL)
    return [name for name, body in blocks if not re.search(r"^\s*default\b", body, re.MULTILINE)]


def test_terraform_accepts_every_golden_file(aws: Emulated, tmp_path: Path) -> None:
    """But those with mounts: the provider on this machine may be older than 6.22.0, which has them."""
    texts = {path.parent.name: path.read_text() for path in sorted(GOLDEN.glob("*/stack.tf"))}
    accepted = [name for name, text in texts.items() if "additional_model_data_source" not in text]
    assert len(accepted) >= 6
    module = tmp_path / "all"
    terraform = terraform_in(module, aws, tmp_path)
    for name in accepted:  # each a module of one: Terraform starts its provider once
        (module / name).mkdir()
        (module / name / "main.tf").write_text(texts[name])
    calls = [
        [
            f'module "{name}" {{',
            f'  source = "./{name}"',
            *(f'  {key} = ""' for key in required(texts[name])),
            "}",
        ]
        for name in accepted
    ]
    (module / "main.tf").write_text("".join(f"{line}\n" for call in calls for line in call))
    terraform("init")
    for name in accepted:
        terraform("fmt", "-check", "-diff", name)
    terraform("validate")


def test_cfn_lint_finds_nothing_in_any_golden_file() -> None:
    templates = sorted(map(str, GOLDEN.glob("*/stack.template.yaml")))
    assert len(templates) >= 6
    command = [str(stack_checkers() / "cfn-lint"), "--regions", "us-east-1", "--", *templates]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_cfn_lint_finds_a_property_that_does_not_exist(tmp_path: Path) -> None:
    """The check above can fail."""
    text = (GOLDEN / "plain" / "stack.template.yaml").read_text()
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(text.replace("InitialInstanceCount", "InstanceCount"))
    command = [str(stack_checkers() / "cfn-lint"), "--regions", "us-east-1", "--", str(wrong)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode != 0
    assert "InstanceCount" in done.stdout
