"""LoRA adapters and files of the user reach the container of an endpoint, which registers and serves them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.adapters import write_adapter
from tests.support.emulator_process import Emulated, emulator
from tests.support.json_output import require_described
from tests.support.least_privilege import write_model

pytestmark = pytest.mark.landing

RECIPE = """\
name: lora
model_id: ./model
engine: custom
instance_type: ml.m5.xlarge
handler: {file: model.py}
adapters: {french: ./french, danish: ./danish}
files: {extra: {data/labels.json: labels.json}}
weights: {deliver: DELIVER}
probe: {body: '{"inputs": "OK"}'}
"""
HANDLER = '''\
import json, pathlib
from djl_python import Input, Output

RANKS = {}


def register_adapter(inputs: Input) -> Output:
    config = pathlib.Path(inputs.get_property("src"), "adapter_config.json")
    RANKS[inputs.get_property("name")] = json.loads(config.read_text())["r"]
    return Output(message="Adapter registered")


def unregister_adapter(inputs: Input) -> Output:
    del RANKS[inputs.get_property("name")]
    return Output(message="Adapter unregistered")


def handle(inputs: Input) -> Output:
    """Which adapter answers, its rank, and the user's file."""
    if inputs.is_empty():
        return None
    name = inputs.get_property("X-Amzn-SageMaker-Adapter-Identifier") or ""
    labels = pathlib.Path(__file__).with_name("data") / "labels.json"
    return Output().add_as_json({"name": name, "rank": RANKS[name] if name else 0, "labels": labels.read_text()})
'''


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "1000000", containers=True) as running:
        yield running


@pytest.fixture
def lmi_json(
    aws: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Runs a command that succeeds; its stdout."""
    for name, value in aws.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "model")
    write_adapter(tmp_path / "french", rank=4)
    write_adapter(tmp_path / "danish", rank=8)
    Path("model.py").write_text(HANDLER)
    Path("labels.json").write_text("[1]")

    def command(*argv: str) -> str:
        code = run(lmi, [*argv])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        require_described(argv, captured.out)
        return captured.out

    return command


@pytest.mark.parametrize("deliver", ["s3", "artifact"])
def test_container_serves_each_adapter_after_up_update_and_rollback(
    lmi_json: Callable[..., str], deliver: str
) -> None:
    Path("r.yaml").write_text(RECIPE.replace("DELIVER", deliver))

    def rank(adapter: str) -> int:
        answer = json.loads(lmi_json("invoke", "lora", "--adapter", adapter, "--body", "{}"))
        assert (answer["name"], answer["labels"]) == (adapter, "[1]")
        return int(answer["rank"])

    lmi_json("up", "r.yaml", "--yes")
    assert (rank("french"), rank("danish")) == (4, 8)
    write_adapter(Path("danish"), rank=16)
    lmi_json("up", "r.yaml", "--yes")
    assert (rank("french"), rank("danish")) == (4, 16)
    lmi_json("rollback", "lora", "--yes")
    assert rank("danish") == 8
    lmi_json("down", "lora", "--yes", "--purge")


SHARED = RECIPE.replace("probe:", "endpoint: {share: team}\nprobe:").replace("DELIVER", "s3")


def test_adapter_components_are_registered_in_the_container_of_their_model(
    aws: Emulated, lmi_json: Callable[..., str]
) -> None:
    """The same container serves all the time: an adapter is added, changed, removed and restored without another."""
    Path("r.yaml").write_text(SHARED.replace(", danish: ./danish", ""))

    def rank(adapter: str) -> int:
        return int(json.loads(lmi_json("invoke", "lora", "--adapter", adapter, "--body", "{}"))["rank"])

    def streams() -> list[str]:
        group = "/aws/sagemaker/InferenceComponents/lora"
        found = aws.client("logs").describe_log_streams(logGroupName=group)["logStreams"]
        return [each["logStreamName"] for each in found]

    lmi_json("up", "r.yaml", "--yes")
    assert rank("french") == 4
    container = streams()
    Path("r.yaml").write_text(SHARED)
    lmi_json("up", "r.yaml", "--yes")
    assert (rank("french"), rank("danish")) == (4, 8)
    write_adapter(Path("danish"), rank=16)
    lmi_json("up", "r.yaml", "--yes")
    assert rank("danish") == 16
    lmi_json("rollback", "lora", "--yes")
    assert rank("danish") == 8
    assert streams() == container
    lmi_json("down", "lora", "--yes", "--purge")
    assert aws.client("sagemaker").list_inference_components()["InferenceComponents"] == []
