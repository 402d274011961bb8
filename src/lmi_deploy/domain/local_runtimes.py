"""The runtimes of this machine: what each needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NEEDS: Final[Mapping[str, frozenset[str]]] = {
    "embedded": frozenset({"engine", "environment"}),
    "djl-serving": frozenset({"environment"}),
    "triton": frozenset({"environment"}),
    "container": frozenset(),
}
"""What is prepared on this machine for a server: DJL's Python engine, a serving environment for its workers (for
Triton also with the server).
"""
