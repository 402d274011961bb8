"""recipes/published/bert-inf1 on the emulator: a tiny BERT, compiled by a job, answered by its code."""

from __future__ import annotations

import json
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
from tests.support.sample_model import cached_tiny
from tests.support.serving_environment import serving_python

pytestmark = [pytest.mark.model, pytest.mark.landing]
FOLDER = recipes() / "published" / "bert-inf1"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    flags = ("--python", str(serving_python()), "--speed", "1000000")
    with emulator(tmp_path_factory.mktemp("aws"), *flags, containers=True) as running:
        yield running


def tiny_bert(folder: Path) -> Path:
    """For both tasks: a head for questions has two outputs, and begins random."""
    copy = folder / "bert"
    if not copy.is_dir():
        shutil.copytree(cached_tiny(serving_python(), "text-classification"), copy)
        config = json.loads((copy / "config.json").read_text())
        config |= {"id2label": {"0": "BAD", "1": "GOOD"}, "label2id": {"BAD": 0, "GOOD": 1}}
        (copy / "config.json").write_text(json.dumps(config))
        make = "import sys, transformers as t; m = t.BertForSequenceClassification.from_pretrained("
        make += "sys.argv[1], ignore_mismatched_sizes=True); m.save_pretrained(sys.argv[1])"
        subprocess.run([str(serving_python()), "-c", make, str(copy)], check=True, capture_output=True)
    return copy


def of_tiny_bert(*words: str) -> tuple[str, ...]:
    """The recipe with a tiny model; the job gets the stand-in of torch_neuron."""
    tiny_bert(Path.cwd())
    role = f"compile.role=arn:aws:iam::{ACCOUNT}:role/compile-job"
    sets = ("model_id=./bert", "compile.arguments.sequence-length=32", 'files.allow=["*"]', role)
    return ("recipe.yaml", *words, *(word for each in sets for word in ("--set", each)))


@pytest.fixture
def command(
    aws: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    for name, value in aws.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    shutil.copytree(FOLDER, tmp_path / "recipe")
    monkeypatch.chdir(tmp_path / "recipe")
    clear_buckets(aws)
    aws.role("compile-job")
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    aws.client("iam").put_role_policy(
        RoleName="compile-job", PolicyName="all", PolicyDocument=json.dumps(everything)
    )

    def call(*words: str, code: int = 0) -> str:
        assert run(lmi, list(words)) == code, capsys.readouterr()
        printed = capsys.readouterr()
        return printed.out + printed.err

    return call


def test_questions_are_answered_in_both_layouts(command: Callable[..., str]) -> None:
    first = of_tiny_bert()
    command("compile", *first, "--yes")
    command("up", *first, "--yes")
    body = {"question": "Where is the Amazon?", "context": "The Amazon is a river."}
    printed = command("invoke", "bert-inf1", "--body", json.dumps({"inputs": body}))
    answer = json.loads(printed.partition("\n")[0])
    assert answer.keys() == {"score", "start", "end", "answer"}
    assert body["context"][answer["start"] : answer["end"]] == answer["answer"]
    several = command("invoke", "bert-inf1", "--body", json.dumps({"inputs": [body] * 3}))
    assert json.loads(several.partition("\n")[0]) == [answer] * 3
    assert "inputs is empty" in command("invoke", "bert-inf1", "--body", '{"inputs": []}', code=1)

    six = of_tiny_bert(
        *("--overlay", "pipeline-batch6", "--set", "tensor_parallel_degree=4", "--set", "name=bert-inf1")
    )
    command("compile", *six, "--yes")
    command("up", *six, "--yes")
    printed = command("invoke", "bert-inf1", "--body", json.dumps({"inputs": [body] * 7}))
    assert len(json.loads(printed.partition("\n")[0])) == 7
    command("down", "bert-inf1", "--yes", "--purge")


@pytest.mark.long
def test_graph_for_other_cores_is_refused_with_the_reason(command: Callable[..., str]) -> None:
    cores = ("--overlay", "classification", "--set", "compile.arguments.cores=4")
    given = of_tiny_bert(*cores, "--set", "timeouts.container_startup=60")
    command("compile", *given, "--yes")
    printed = command("up", *given, "--yes", code=1)
    assert "compiled for 4 NeuronCores, but this process has 1" in printed


@pytest.mark.long
def test_texts_and_pairs_are_classified(command: Callable[..., str]) -> None:
    given = of_tiny_bert("--overlay", "classification")
    command("compile", *given, "--yes")
    command("up", *given, "--yes")
    printed = command("invoke", "bert-inf1-classification", "I like it")
    labels = {line.partition(" ")[0] for line in printed.splitlines() if line}
    assert labels >= {"GOOD", "BAD"}
    command("down", "bert-inf1-classification", "--yes", "--purge")
