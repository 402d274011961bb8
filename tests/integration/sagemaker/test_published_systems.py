"""The published recipes, and those of LMI's older engines, on the emulator: up, invoke, update, down.

A small model takes the place of the published one, a stand-in that of the engine; the artifact is the recipe's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lmi_deploy.catalog.package_files import recipes
from lmi_deploy.catalog.stand_ins import STAND_IN_NOTICE
from tests.support.emulator_process import Emulated, emulator
from tests.support.published_deployments import (
    FLAN,
    T5,
    TRANSLATE,
    Command,
    answer,
    deploy,
    lmi_command,
    write_model,
)

pytestmark = pytest.mark.landing

GPT_J = recipes() / "published" / "gpt-j-deepspeed" / "recipe.yaml"
GPTJ = {
    "architectures": ["GPTJForCausalLM"],
    "model_type": "gptj",
    "n_head": 16,
    "n_embd": 64,
    "n_positions": 64,
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 1,
    "vocab_size": 60,
    "max_position_embeddings": 8192,
}


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "1000000", containers=True) as running:
        yield running


@pytest.fixture
def command(
    aws: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    return lmi_command(aws, tmp_path, monkeypatch, capsys)


def test_flan_t5_without_code_answers_in_the_published_form(
    aws: Emulated, command: Command, tmp_path: Path
) -> None:
    folder = write_model(tmp_path / "t5", T5, "pytorch_model.bin")
    words = deploy(command, FLAN, folder)
    assert answer(aws, "flan-t5-xxl", TRANSLATE) == [{"generated_text": "Das Haus ist"}]
    assert f"{STAND_IN_NOTICE} FasterTransformer" in command("logs", "flan-t5-xxl")
    command("up", *words, "--set", "options.dtype=fp16", "--yes")
    both = {"inputs": ["a", "b"], "parameters": {"max_new_tokens": 1}}
    assert answer(aws, "flan-t5-xxl", both) == [{"generated_text": "Das"}, {"generated_text": "Das"}]
    assert '"dtype": "fp16"' in command("logs", "flan-t5-xxl")
    command("down", "flan-t5-xxl", "--yes", "--purge")


def test_gpt_j_answers_in_the_published_form(aws: Emulated, command: Command, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "gptj", GPTJ, "pytorch_model.bin")
    words = deploy(command, GPT_J, folder)
    body = {"inputs": "Amazon SageMaker is", "parameters": {"max_new_tokens": 2}}
    assert answer(aws, "gpt-j-deepspeed", body) == [{"generated_text": "Amazon SageMaker is a service"}]
    assert command("invoke", "gpt-j-deepspeed", "It is", "-p", "max_new_tokens=1").strip() == "a"
    command("up", *words, "--set", "options.dtype=bf16", "--yes")
    assert '"dtype": "bf16"' in command("logs", "gpt-j-deepspeed")
    command("down", "gpt-j-deepspeed", "--yes", "--purge")


@pytest.mark.parametrize(
    "recipe", ["llama-3.1-8b-tensorrt-llm", "llama-3.1-8b-lmi-dist", "llama-3-8b-neuronx"]
)
def test_other_engines_answer_texts_and_streams(
    aws: Emulated, command: Command, tmp_path: Path, recipe: str
) -> None:
    folder = write_model(tmp_path / "llama", LLAMA, "model.bin")
    deploy(command, recipes() / f"{recipe}.yaml", folder, "--set", "files.allow_pickle=true")
    name = yaml.safe_load((recipes() / f"{recipe}.yaml").read_text())["name"]
    body = {"inputs": "The capital of France is", "parameters": {"max_new_tokens": 2}}
    assert answer(aws, name, body) == {"generated_text": "Paris is"}
    assert command("invoke", name, "The capital?").strip() == "Paris is the capital."
    command("down", name, "--yes", "--purge")
