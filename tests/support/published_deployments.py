"""Published recipes with a small model in place of theirs: deploy one on the emulator, and read its responses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lmi_deploy.catalog.package_files import recipes
from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.emulator_process import Emulated

FLAN = recipes() / "published" / "flan-t5-fastertransformer" / "recipe.yaml"
TRANSLATE = {
    "inputs": ["translate English to German: The house is wonderful."],
    "parameters": {"max_seq_len": 3, "beam_width": 1, "top_k": 1},
}
"""The published request."""
T5 = {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "num_heads": 8, "d_model": 64}
Command = Callable[..., str]
"""Runs `lmi`, which must succeed; its stdout."""


def lmi_command(
    aws: Emulated, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    for name, value in aws.environment(folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)

    def call(*words: str) -> str:
        code = run(lmi, list(words))
        output = capsys.readouterr()
        assert code == 0, output.err
        return output.out

    return call


def write_model(folder: Path, config: dict[str, object], weights: str) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / weights).write_bytes(b"\0" * 4096)
    return str(folder)


def deploy(command: Command, recipe: Path, folder: str, *more: str) -> tuple[str, ...]:
    """Brings the recipe up with the model of the folder; the arguments that name it."""
    words = (str(recipe), "--set", f"model_id={folder}", "--set", "revision=main", *more)
    command("validate", *words)
    command("up", *words, "--yes")
    return words


def answer(aws: Emulated, name: str, body: object) -> object:
    """The response of the endpoint, as a client of AWS sees it."""
    runtime = aws.client("sagemaker-runtime")
    sent = runtime.invoke_endpoint(
        EndpointName=name, Body=json.dumps(body).encode(), ContentType="application/json"
    )
    return json.loads(sent["Body"].read())
