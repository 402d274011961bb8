"""Real engines on this machine: lmi's own commands and cache of environments, and a local Hub with a real model.

An environment is built once and stays in lmi's cache; what a test deploys is deleted at its end.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Installed
from tools.quickstart import sample_hub

RECIPES = ROOT / "recipes"


@pytest.fixture(scope="session")
def hub_address() -> Iterator[str]:
    with sample_hub() as address:
        yield address


@pytest.fixture(scope="module")
def lmi(hub_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The `lmi` of this checkout, with its own state and Hub cache. What is deployed with it ends with the module."""
    home = tmp_path_factory.mktemp("home")
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub_address,
        "HF_HOME": str(home / "hf"),
        "LMI_STATE_HOME": str(home / "state"),
    }
    tool = Installed(Path(sys.executable).with_name("lmi"), environment)
    yield tool
    for line in tool.run("ls", "--json").stdout.splitlines():
        if "name" in (deployment := json.loads(line)):
            tool.run("down", "--yes", deployment["name"])
