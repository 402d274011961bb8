"""The runtimes of this machine: what each needs, and which engines it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from lmi_deploy.domain.recipe_keys import Engine

NEEDS: Final[Mapping[str, frozenset[str]]] = {
    "embedded": frozenset({"engine", "environment"}),
    "djl-serving": frozenset({"environment"}),
    "container": frozenset(),
}
"""What is prepared on this machine for a server: DJL's Python engine, a serving environment for its workers."""
ENVIRONMENT_ENGINES: Final[tuple[Engine, ...]] = ("accelerate", "custom")
RUNS: Final[Mapping[str, tuple[Engine, ...]]] = {
    "embedded": ENVIRONMENT_ENGINES,
    "djl-serving": ENVIRONMENT_ENGINES,
    "container": get_args(Engine),
}
"""The engines of a runtime: an image contains its own, otherwise the serving environment must contain it."""
