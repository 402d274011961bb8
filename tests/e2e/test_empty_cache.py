"""`lmi emulator` with an empty cache and an interpreter that has numpy alone serves a recipe of the default engine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Installed
from tests.support.emulator_process import emulator
from tests.support.sample_model import cached_tiny_model
from tests.support.serving_environment import serving_python

pytestmark = [pytest.mark.model, pytest.mark.landing]


@pytest.fixture
def with_numpy(tmp_path: Path) -> Path:
    uv, venv = (sys.executable, "-m", "uv"), str(tmp_path / "numpy")
    pins = str(ROOT / "requirements" / "dev.txt")
    subprocess.run([*uv, "venv", "-q", "--python", sys.executable, venv], check=True)
    install = [*uv, "pip", "install", "-q", "--python", venv, "--constraint", pins, "numpy"]
    subprocess.run(install, check=True)
    return Path(venv, "bin", "python")


def test_vllm_recipe_answers_on_the_emulator(installed: Installed, with_numpy: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "first.yaml"
    cache = {"LMI_CACHE_HOME": str(tmp_path / "cache")}
    flags = ("--python", str(with_numpy), "--speed", "120")
    with emulator(tmp_path, *flags, variables=cache, forked=False) as aws:
        region = {"AWS_REGION": aws.region, "AWS_ENDPOINT_URL": aws.url, "AWS_EC2_METADATA_DISABLED": "true"}
        lmi = replace(installed, environment={**installed.environment, **aws.keys, **region})
        model = tmp_path / "first"
        model.symlink_to(cached_tiny_model(serving_python()))
        for command in (
            ("init", str(model), "-o", str(recipe)),
            ("bootstrap", str(recipe), "--yes"),
            ("up", str(recipe), "--yes"),
        ):
            done = lmi.run(*command)
            assert done.returncode == 0, done.stdout + done.stderr
        assert "engine: vllm" in recipe.read_text()
        assert "Paris" in lmi.run("invoke", "first", "What is the capital of France?").stdout
        assert lmi.run("down", "first", "--yes").returncode == 0
