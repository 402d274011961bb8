"""Engines whose image has a server of its own, from `up` to `down` on the emulator: variables, mount, requests."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support import own_server
from tests.support.container_image import FLAGS, image, podman_environ
from tests.support.emulator_process import ACCOUNT, REGION, Emulated, emulator
from tests.support.least_privilege import clear_buckets, write_model

pytestmark = pytest.mark.landing

RECIPE = """\
name: {engine}
model_id: ./model
engine: {engine}
{more}
"""
MOUNT = "/opt/ml/additional-model-data-sources/weights"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    variables = {"LMI_CONTAINER_ENGINE": "podman", "LMI_CONTAINER_FLAGS": FLAGS}
    folder = tmp_path_factory.mktemp("aws")
    with emulator(folder, "--speed", "1000000", containers=True, variables=variables) as running:
        yield running


@pytest.fixture
def own_image() -> Iterator[str]:
    """In podman, under its address in ECR: where `docker build` would leave it."""
    address = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/own-server:1"
    engine, name = podman_environ()["LMI_CONTAINER_ENGINE"], image(Path(own_server.__file__))
    subprocess.run([engine, "tag", name, address], check=True)
    yield address
    # Without the second name podman would remove both.
    subprocess.run([engine, "untag", name, address], check=False, capture_output=True)


@pytest.fixture
def command(
    aws: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    for name, value in aws.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    clear_buckets(aws)
    write_model(tmp_path / "model")

    def call(*words: str, code: int = 0) -> str:
        assert run(lmi, list(words)) == code, capsys.readouterr()
        printed = capsys.readouterr()
        return printed.out if code == 0 else printed.err

    return call


def container(aws: Emulated, endpoint: str) -> dict[str, Any]:
    """The one that serves now."""
    sagemaker = aws.client("sagemaker")
    config = sagemaker.describe_endpoint(EndpointName=endpoint)["EndpointConfigName"]
    (variant,) = sagemaker.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    found: dict[str, Any] = sagemaker.describe_model(ModelName=variant["ModelName"])["PrimaryContainer"]
    return found


def left(aws: Emulated) -> int:
    sagemaker = aws.client("sagemaker")
    return sum(
        map(
            len,
            (
                sagemaker.list_models()["Models"],
                sagemaker.list_endpoint_configs()["EndpointConfigs"],
                sagemaker.list_endpoints()["Endpoints"],
            ),
        )
    )


@pytest.mark.parametrize(
    ("engine", "name", "model", "option"),
    [
        ("vllm-server", "SM_VLLM_MAX_MODEL_LEN", "SM_VLLM_MODEL", "max_model_len"),
        ("sglang", "SM_SGLANG_CONTEXT_LENGTH", "SM_SGLANG_MODEL_PATH", "context_length"),
    ],
)
def test_openai_server_is_deployed_asked_updated_and_taken_down(
    aws: Emulated, command: Callable[..., str], *, engine: str, name: str, model: str, option: str
) -> None:
    more = f"task: text-generation\ninstance_type: ml.g5.xlarge\noptions: {{{option}: 1024}}"
    Path("r.yaml").write_text(RECIPE.format(engine=engine, more=more))
    command("up", "r.yaml", "--yes")
    variables = container(aws, engine)["Environment"]
    assert (variables[name], variables[model]) == ("1024", MOUNT)
    assert command("invoke", engine, "Hi").strip() == "This is a stand-in."
    assert command("invoke", engine, "Hi", "--stream").strip() == "This is a stand-in."
    assert "400" in command("invoke", engine, "--body", '{"inputs": "x"}', code=1)
    command("plan", "r.yaml", "--exit-code")
    command("up", "r.yaml", "--yes", "--set", f"options.{option}=2048")
    assert container(aws, engine)["Environment"][name] == "2048"
    command("down", engine, "--yes", "--purge")
    assert left(aws) == 0


@pytest.mark.parametrize("instance", ["ml.g5.xlarge", "ml.m5.xlarge"])
def test_tei_embeds_on_gpu_and_cpu(aws: Emulated, command: Callable[..., str], instance: str) -> None:
    more = f"task: text-embedding\ninstance_type: {instance}\noptions: {{max_client_batch_size: 2}}"
    Path("r.yaml").write_text(RECIPE.format(engine="tei", more=more))
    command("up", "r.yaml", "--yes")
    assert ("/tei-cpu:" in container(aws, "tei")["Image"]) == (instance == "ml.m5.xlarge")
    (vector,) = json.loads(command("invoke", "tei", "A cat"))
    assert len(vector) == 8
    two = json.loads(command("invoke", "tei", "--body", '{"inputs": ["a", "b"]}'))
    assert len(two) == 2
    assert "413" in command("invoke", "tei", "--body", '{"inputs": ["a", "b", "c"]}', code=1)
    command("down", "tei", "--yes", "--purge")
    assert left(aws) == 0


OWN = """\
name: own-server
model_id: ./model
engine: custom
instance_type: ml.m5.xlarge
container: {{image: "{image}"}}
probe: {{body: '{{"input": "amazon"}}', expect: AMAZON}}
timeouts: {{container_startup: 60}}
"""


def test_image_of_the_user_runs_with_its_weights_mounted(
    aws: Emulated, command: Callable[..., str], own_image: str
) -> None:
    Path("r.yaml").write_text(OWN.format(image=own_image))
    command("up", "r.yaml", "--yes")
    answer = json.loads(command("invoke", "own-server", "--body", '{"input": "amazon"}'))
    assert answer == {"output": "AMAZON", "weights": ["config.json", "model.safetensors"]}
    assert "send input" in command("invoke", "own-server", "--body", "{}", code=1)
    assert "own server on" in command("logs", "own-server")
    command("down", "own-server", "--yes", "--purge")
    assert left(aws) == 0


def test_image_that_never_answers_ping_is_explained_and_leaves_nothing(
    aws: Emulated, command: Callable[..., str], own_image: str
) -> None:
    Path("r.yaml").write_text(OWN.format(image=own_image).replace("own-server", "never-answers", 1))
    never = ("--set", "container.environment.NEVER_LISTEN=1", "--set", "timeouts.container_startup=3000")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pass_startup_limit, aws)
        error = " ".join(command("up", "r.yaml", "--yes", *never, code=1).split())
        assert waiting.result()
    assert "did not pass the ping health check" in error
    assert "own server on" in error
    assert "read the container's last lines above, then run `lmi up` to create it again" in error
    command("down", "never-answers", "--yes", "--purge")
    assert left(aws) == 0
    assert not any("never-answers" in line for line in running_containers())


def pass_startup_limit(aws: Emulated) -> bool:
    """Turn the emulated clock once the container's first line is in the log; False if it never is."""
    logs = aws.client("logs")
    for _ in range(600):
        with suppress(logs.exceptions.ResourceNotFoundException):
            events = logs.filter_log_events(logGroupName="/aws/sagemaker/Endpoints/never-answers")["events"]
            if any("own server on" in event["message"] for event in events):
                aws.advance(3600)
                return True
        time.sleep(0.1)
    return False


def running_containers() -> list[str]:
    engine = podman_environ()["LMI_CONTAINER_ENGINE"]
    argv = [engine, "ps", "--format", "{{.Names}} {{.Image}}"]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def test_image_that_is_not_here_fails_with_its_name_in_the_log(
    aws: Emulated, command: Callable[..., str]
) -> None:
    missing = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/nobody:1"
    Path("r.yaml").write_text(OWN.format(image=missing))
    assert f"no program for the image {missing}" in command("up", "r.yaml", "--yes", code=1)
    command("down", "own-server", "--yes", "--purge")
