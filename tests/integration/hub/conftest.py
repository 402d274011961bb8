"""One local Hub for the tests of the adapter."""

from collections.abc import Iterator

import pytest

from tests.support.hub import LocalHub, serve_hub
from tests.support.hub_client import FILES


@pytest.fixture(scope="module")
def running_hub() -> Iterator[LocalHub]:
    with serve_hub({"org/m": FILES}) as hub:
        yield hub
