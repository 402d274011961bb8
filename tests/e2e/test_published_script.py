"""The published script of FLAN-T5 on FasterTransformer, byte for byte, with the real tokenizer of transformers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.emulator_process import Emulated, emulator
from tests.support.published_deployments import (
    FLAN,
    T5,
    TRANSLATE,
    answer,
    deploy,
    lmi_command,
    write_model,
)
from tests.support.serving_environment import serving_python

VOCABULARY = """
import pathlib, sentencepiece
pathlib.Path("corpus.txt").write_text("\\n".join(f"the house number {n} is wonderful" for n in range(200)))
train = sentencepiece.SentencePieceTrainer.train
train(input="corpus.txt", model_prefix="spiece", vocab_size=60, hard_vocab_limit=False)
"""
NAME = "flan-t5-xxl-own-script"
pytestmark = [pytest.mark.model, pytest.mark.landing]


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    flags = ("--python", str(serving_python()), "--speed", "1000000")
    with emulator(tmp_path_factory.mktemp("aws"), *flags, containers=True) as running:
        yield running


def test_own_script_answers_in_the_published_form(
    aws: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = lmi_command(aws, tmp_path, monkeypatch, capsys)
    folder = write_model(tmp_path / "t5", T5, "pytorch_model.bin")
    subprocess.run([serving_python(), "-c", VOCABULARY], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "spiece.model").rename(tmp_path / "t5" / "spiece.model")
    deploy(command, FLAN, folder, "--overlay", "own-script")
    assert answer(aws, NAME, TRANSLATE) == {"outputs": ["Das Haus ist"]}
    (bucket,) = [each["Name"] for each in aws.client("s3").list_buckets()["Buckets"]]
    stored = aws.client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    (shipped,) = [each["Key"] for each in stored if each["Key"].endswith("/model.py")]
    body = aws.client("s3").get_object(Bucket=bucket, Key=shipped)["Body"].read()
    assert body == (FLAN.parent / "model.py").read_bytes()
    command("down", NAME, "--yes", "--purge")
