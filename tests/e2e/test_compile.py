"""`lmi compile` on this machine: transformers writes a real model in shards, and the shards are served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ROOT, Installed

pytestmark = [pytest.mark.model, pytest.mark.landing]
SHARD = """
import argparse
from transformers import AutoModelForCausalLM, AutoTokenizer
options = argparse.ArgumentParser()
for name in ("--model", "--output", "--shard"):
    options.add_argument(name)
given = options.parse_args()
model = AutoModelForCausalLM.from_pretrained(given.model, torch_dtype="auto")
model.save_pretrained(given.output, max_shard_size=given.shard)
AutoTokenizer.from_pretrained(given.model).save_pretrained(given.output)
"""


def result_of(done: Any) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_model_sharded_here_is_the_one_that_answers(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "shard.py").write_text(SHARD)
    text = (ROOT / "recipes" / "quickstart.yaml").read_text().replace("name: quickstart", "name: sharded")
    recipe = tmp_path / "sharded.yaml"
    recipe.write_text(f"{text}\ncompile: {{script: shard.py, arguments: {{shard: 100MB}}}}\n")
    cache = {"LMI_STATE_HOME": str(tmp_path / "state")}

    assert installed.run("up", "--yes", str(recipe), env=cache).returncode == 2
    made = result_of(installed.run("compile", "--yes", "--json", str(recipe), env=cache))
    assert len([path for path in made["files"] if path.endswith(".safetensors")]) > 2
    try:
        result_of(installed.run("up", "--yes", "--json", str(recipe), env=cache))
        answer = installed.run("invoke", "sharded", "What is the capital of France?", env=cache)
        assert "Paris" in answer.stdout
    finally:
        down = installed.run("down", "--yes", "sharded", env=cache)
        removed = installed.run("cache", "rm", "--yes", "--json", made["result"], env=cache)
    assert down.returncode == 0, down.stderr
    assert result_of(removed)["bytes"] > 200_000_000
