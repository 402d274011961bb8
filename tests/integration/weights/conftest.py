"""A local Hub as source, S3 (a fake, moto, versitygw) as target."""

import random
from collections.abc import Iterator

import pytest

from tests.support.hub import LocalHub, serve_hub

NOISE = random.Random(6).randbytes(12 << 20)
FILES = {"config.json": b'{"a": 1}' * 40, "empty": b"", "model.safetensors": NOISE, "sub/x.json": b"{}"}


@pytest.fixture(scope="module")
def running_hub() -> Iterator[LocalHub]:
    with serve_hub({"org/m": FILES}) as hub:
        yield hub


@pytest.fixture(autouse=True)
def _quiet(quiet_environment: None) -> None:
    pass
