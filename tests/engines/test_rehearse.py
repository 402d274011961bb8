"""`lmi rehearse` with a real vLLM and a real Triton: they load a model of random weights."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Installed
from tests.engines.conftest import RECIPES
from tests.support.recipe_models import recipe_models

pytestmark = pytest.mark.landing


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


@pytest.mark.long
def test_published_t5_experiment_is_rehearsed_and_prints_its_grid(tmp_path: Path) -> None:
    """Two of its twelve deployments: the published baseline, which packs torch, and one precision."""
    copy, table = tmp_path / "t5", tmp_path / "table.md"
    shutil.copytree(RECIPES / "published/t5-triton-tensorrt", copy)
    text = (copy / "recipe.yaml").read_text("utf-8").replace("    trt-fp16: {}\n", "", 1)
    text = text.replace("[ml.g4dn.xlarge, ml.g5.xlarge]", "[ml.g4dn.xlarge]")
    (copy / "recipe.yaml").write_text(
        text.replace("google-t5/t5-small, google-t5/t5-base", "google-t5/t5-small")
    )
    with recipe_models() as hub:
        environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")}
        lmi = Installed(Path(sys.executable).with_name("lmi"), dict(os.environ))
        recipe = str(copy / "recipe.yaml")
        done = lmi.run("bench", recipe, "--rehearse", "--markdown", str(table), "--json", env=environment)
    assert done.returncode == 0, done.stdout[-4000:]
    assert json.loads(done.stdout.splitlines()[-1])["points"] == 2
    header = next(line for line in table.read_text("utf-8").splitlines() if "pytorch mean" in line)
    assert "trt-fp32 mean" in header
