"""A small share of `make kills`: random signals and faults with a fixed seed, in an account with consistency
lag.

tools/kills.py runs 200 kills and 60 rounds, and any of them again by its seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.emulator_process import Emulated, emulator
from tests.support.random_kills import faulty_round, killed_lifecycle, remaining

pytestmark = pytest.mark.landing

LAG = ("--speed", "1000000", "--lag", "tags=300,reads=1,roles=2")


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[Emulated]:
    with emulator(tmp_path, *LAG) as running:
        yield running


@pytest.mark.parametrize(("seed", "kind"), [(1, "plain"), (7, "shared")])
def test_lifecycle_with_random_kills_converges(aws: Emulated, tmp_path: Path, seed: int, kind: str) -> None:
    outcome = killed_lifecycle(aws, tmp_path, seed, kind)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert remaining(aws) == {}


def test_lifecycle_with_random_faults_converges(aws: Emulated, tmp_path: Path) -> None:
    outcome = faulty_round(aws, tmp_path, 1_000_001)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert remaining(aws) == {}
