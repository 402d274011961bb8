"""GPT-J by the own script of its published recipe, with DeepSpeed itself on a CPU, on the emulator."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmi_deploy.catalog.package_files import recipes
from lmi_deploy.catalog.stand_ins import STAND_IN_NOTICE
from tests.support.deepspeed_environment import deepspeed_python
from tests.support.emulator_process import Emulated, emulator
from tests.support.published_deployments import answer, deploy, lmi_command

pytestmark = pytest.mark.landing

RECIPE = recipes() / "published" / "gpt-j-deepspeed" / "recipe.yaml"
NAME = "gpt-j-deepspeed-own-script"
PROMPTS = ["the house number 4 is", "wonderful"]
LENGTH = 6
MODEL = """
import json, sys, torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import GPTJConfig, GPTJForCausalLM, PreTrainedTokenizerFast
folder, prompts, length = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
words = Tokenizer(models.WordLevel(unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
corpus = [f"the house number {n} is wonderful" for n in range(50)]
words.train_from_iterator(corpus, trainers.WordLevelTrainer(special_tokens=["<unk>", "<eos>"]))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", eos_token="<eos>", pad_token="<eos>")
tokenizer.padding_side = "left"
torch.manual_seed(5)
sizes = dict(n_embd=64, n_layer=2, n_head=4, rotary_dim=16, n_positions=64, vocab_size=words.get_vocab_size())
model = GPTJForCausalLM(GPTJConfig(**sizes, bos_token_id=1, eos_token_id=1)).eval()
model.save_pretrained(folder, safe_serialization=False)
tokenizer.save_pretrained(folder)
tokens = tokenizer(prompts, padding=True, return_tensors="pt")
asked = dict(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask)
output = model.generate(**asked, pad_token_id=1, max_new_tokens=length, do_sample=False)
print(json.dumps(tokenizer.batch_decode(output, skip_special_tokens=True)))
"""


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    flags = ("--python", str(deepspeed_python()), "--speed", "1000000")
    with emulator(tmp_path_factory.mktemp("aws"), *flags, containers=True) as running:
        yield running


def test_own_script_answers_as_transformers_does(
    aws: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = lmi_command(aws, tmp_path, monkeypatch, capsys)
    folder = str(tmp_path / "gptj")
    arguments = (folder, json.dumps(PROMPTS), str(LENGTH))
    made = subprocess.run(
        [deepspeed_python(), "-c", MODEL, *arguments], check=True, capture_output=True, text=True
    )
    expected = json.loads(made.stdout.splitlines()[-1])
    deploy(command, RECIPE, folder, "--overlay", "own-script", "--set", "options.dtype=fp32")
    body = {"inputs": PROMPTS, "parameters": {"max_new_tokens": LENGTH, "do_sample": False}}
    assert answer(aws, NAME, body) == [{"generated_text": text} for text in expected]
    logs = command("logs", NAME)
    assert "DeepSpeed info: version=0.14.2" in logs
    assert STAND_IN_NOTICE not in logs
    command("down", NAME, "--yes", "--purge")
