"""recipes/published/gpt2-tensorrt on the emulator: compiled to ONNX by a job with the recipe's script, served by its
own program with onnxruntime in place of TensorRT.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lmi_deploy.catalog.package_files import recipes
from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.emulator_process import ACCOUNT, Emulated, emulator
from tests.support.least_privilege import clear_buckets
from tests.support.onnx_environment import onnx_python
from tests.support.sample_model import cached_tiny_model
from tests.support.serving_environment import serving_python

pytestmark = [pytest.mark.model, pytest.mark.landing]
FOLDER = recipes() / "published" / "gpt2-tensorrt"
TINY = """
import sys, torch
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel
torch.manual_seed(0)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
config = GPT2Config(vocab_size=len(tokenizer), n_positions=64, n_embd=32, n_layer=2, n_head=2)
GPT2LMHeadModel(config).save_pretrained(sys.argv[2]), tokenizer.save_pretrained(sys.argv[2])
"""
IMAGE = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/gpt2-tensorrt:1"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return onnx_python(tmp_path_factory.mktemp("onnx") / "venv", serving_python())


@pytest.fixture(scope="module")
def aws(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    flags = ("--python", str(python), "--speed", "1000000")
    with emulator(tmp_path_factory.mktemp("aws"), *flags, containers=True) as running:
        yield running


@pytest.fixture(scope="module")
def folder(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe's, with a tiny GPT-2. The emulator's Python has the packages of the script."""
    copy = tmp_path_factory.mktemp("gpt2") / "recipe"
    shutil.copytree(FOLDER, copy)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    made = [str(python), "-c", TINY, str(cached_tiny_model(serving_python())), str(copy / "gpt2")]
    subprocess.run(made, check=True, env=environment, capture_output=True)
    recipe = copy / "recipe.yaml"
    text = recipe.read_text().replace("  requirements: compile-requirements.txt\n", "")
    # Its base image cannot be downloaded here, so that the image is named instead of built.
    recipe.write_text(text.replace("build: ./container", f"image: {IMAGE}"))
    return copy


@pytest.fixture
def command(
    aws: Emulated,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., str]:
    for name, value in aws.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    clear_buckets(aws)
    aws.role("compile-job")
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    aws.client("iam").put_role_policy(
        RoleName="compile-job", PolicyName="all", PolicyDocument=json.dumps(everything)
    )

    def call(*words: str, code: int = 0) -> str:
        assert run(lmi, list(words)) == code, capsys.readouterr()
        printed = capsys.readouterr()
        return printed.out if code == 0 else printed.err

    return call


def test_published_request_is_answered_by_the_containers_own_program(
    aws: Emulated, command: Callable[..., str]
) -> None:
    given = ("recipe.yaml", "--set", "model_id=./gpt2")
    role = ("--set", f"compile.role=arn:aws:iam::{ACCOUNT}:role/compile-job")
    assert "lmi compile" in command("up", *given, *role, "--yes", code=2)
    command("compile", *given, *role, "--yes")
    assert "already compiled" in command("compile", *given, *role, "--yes")
    command("up", *given, *role, "--yes")
    answer = json.loads(command("invoke", "gpt2-tensorrt", "--body", '{"input": "amazon"}'))
    assert answer.keys() == {"output"}
    assert answer["output"].startswith("amazon")
    assert len(answer["output"]) > len("amazon")
    assert answer == json.loads(command("invoke", "gpt2-tensorrt", "--body", '{"input": "amazon"}'))
    assert "send" in command("invoke", "gpt2-tensorrt", "--body", '{"inputs": "amazon"}', code=1)
    command("up", *given, *role, "--set", "container.environment.MODE=second", "--yes")
    assert json.loads(command("invoke", "gpt2-tensorrt", "--body", '{"input": "amazon"}')) == answer
    command("down", "gpt2-tensorrt", "--yes", "--purge")
    assert aws.client("sagemaker").list_models()["Models"] == []
