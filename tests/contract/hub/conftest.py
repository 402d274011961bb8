"""One local Hub for the contract tests of the adapter, clean before each; and the adapter before it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hub import LocalHub, serve_hub
from tests.support.hub_client import FILES, HubClient

# Else huggingface_hub asks huggingface.co which program it runs under, whatever endpoint a test gives it.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


@pytest.fixture(scope="module")
def running_hub() -> Iterator[LocalHub]:
    with serve_hub({"org/m": FILES}) as hub:
        yield hub


@pytest.fixture
def hub(running_hub: LocalHub) -> LocalHub:
    running_hub.state.faults.clear()
    running_hub.log.clear()
    return running_hub


@pytest.fixture
def client(hub: LocalHub, tmp_path: Path) -> HubClient:
    return HubClient(hub, tmp_path)
