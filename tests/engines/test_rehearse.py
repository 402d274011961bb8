"""`lmi rehearse` with a real vLLM and a real Triton: they load a model of random weights."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Installed
from tests.engines.conftest import RECIPES
from tests.support.recipe_models import recipe_models


def rehearsed(recipe: str, home: Path) -> dict[str, Any]:
    with recipe_models() as hub:
        environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home / "hf")}
        lmi = Installed(Path(sys.executable).with_name("lmi"), dict(os.environ))
        done = lmi.run("rehearse", str(RECIPES / recipe), "--json", env=environment)
    assert done.returncode == 0, done.stdout[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert [step["step"] for step in result["steps"]][-1] == "down"
    return result


def test_vllm_itself_is_rehearsed_with_random_weights(tmp_path: Path) -> None:
    assert rehearsed("quickstart-vllm.yaml", tmp_path)["stand_in"] == ""


def test_t5_is_exported_and_served_by_triton_itself(tmp_path: Path) -> None:
    result = rehearsed("published/t5-triton-tensorrt/recipe.yaml", tmp_path)
    [files] = [step["outcome"] for step in result["steps"] if step["step"] == "compile"]
    for name in ("encoder.onnx", "encoder.plan", "decoder.onnx", "decoder.plan", "environment.tar.gz"):
        assert name in files
    assert "Triton itself runs" in result["stand_in"]
    assert any("compile script" in line for line in result["proved"])
