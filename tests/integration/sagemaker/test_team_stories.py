"""One person's command meets what another person, the console or time did: drawn by a seed, IAM enforced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.emulator_process import Emulated, emulator
from tests.support.team_stories import SPEED, Story, drawn

SEED = 2026
FEW, MANY = 12, 48


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", SPEED, "--enforce-iam") as running:
        yield running


@pytest.mark.parametrize(
    ("number", "state", "command"),
    [
        pytest.param(number, *pair, marks=pytest.mark.landing if number < FEW else pytest.mark.long)
        for number, pair in enumerate(drawn(MANY, SEED))
    ],
)
def test_command_meets_what_another_did(
    account: Emulated, tmp_path: Path, *, number: int, state: str, command: str
) -> None:
    assert not Story(account, tmp_path, number, state, command).run()
