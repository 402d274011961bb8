"""Engines whose image has a server of its own, from `up` to `down` on the emulator: variables, mount, requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.emulator_process import Emulated, emulator
from tests.support.least_privilege import clear_buckets, write_model

RECIPE = """\
name: {engine}
model_id: ./model
engine: {engine}
{more}
"""
MOUNT = "/opt/ml/additional-model-data-sources/weights"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "1000000", containers=True) as running:
        yield running


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
