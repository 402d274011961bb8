"""One emulator per file: with a clock at full speed, with or without containers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.emulator_process import Emulated, emulator

FULL_SPEED = ("--speed", "1000000")


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    """No containers; waiting takes no time."""
    with emulator(tmp_path_factory.mktemp("aws"), *FULL_SPEED) as running:
        yield running


@pytest.fixture(scope="module")
def hosting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    """Real model servers in DJL's own Python engine; waiting takes no time."""
    with emulator(tmp_path_factory.mktemp("hosting"), *FULL_SPEED, containers=True) as running:
        yield running


@pytest.fixture(scope="module")
def idle_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    """A clock that practically moves only when the test advances it."""
    with emulator(tmp_path_factory.mktemp("still"), "--speed", "0.001") as running:
        yield running
