"""`lmi rehearse` with a real vLLM: it loads a model of random weights."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.e2e.conftest import Installed
from tests.engines.conftest import RECIPES
from tests.support.recipe_models import recipe_models


def test_vllm_itself_is_rehearsed_with_random_weights(tmp_path: Path) -> None:
    with recipe_models() as hub:
        environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")}
        lmi = Installed(Path(sys.executable).with_name("lmi"), dict(os.environ))
        done = lmi.run("rehearse", str(RECIPES / "quickstart-vllm.yaml"), "--json", env=environment)
    assert done.returncode == 0, done.stdout[-4000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["stand_in"] == ""
    assert [step["step"] for step in result["steps"]][-1] == "down"
