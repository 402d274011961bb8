"""Target local: the runtimes, and what each of them needs and can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from lmi_deploy.domain.facts import AvailableRuntimes
from lmi_deploy.domain.recipe import Engine, Recipe, RuntimeName
from lmi_deploy.errors import Unresolvable

NEEDS: Final[Mapping[str, frozenset[str]]] = {
    "embedded": frozenset({"engine", "environment"}),
    "djl-serving": frozenset({"environment"}),
    "container": frozenset(),
}
"""What is prepared on this machine for a server: DJL's Python engine, a serving environment for its workers."""
_OF_OUR_ENVIRONMENTS: Final[tuple[Engine, ...]] = ("accelerate", "custom")
RUNS: Final[Mapping[str, tuple[Engine, ...]]] = {
    "embedded": _OF_OUR_ENVIRONMENTS,
    "djl-serving": _OF_OUR_ENVIRONMENTS,
    "container": get_args(Engine),
}
"""The engines of a runtime: an image contains its own, otherwise the serving environment must contain it."""


def runtime_of(recipe: Recipe, available: AvailableRuntimes) -> RuntimeName:
    """The runtime that the recipe names, else the best available one that runs its engine. Raises Unresolvable."""
    requested = recipe.endpoint.runtime
    if requested == "auto":
        return _best(recipe.engine, available)
    if requested not in available.names:
        why = available.lacking.get(requested, "it is not on this machine")
        raise Unresolvable(
            f"endpoint.runtime: {requested} is not at hand here: {why}",
            hint=f"at hand: {', '.join(available.names)}",
        )
    if recipe.engine not in RUNS[requested]:
        raise _cannot(recipe.engine, f"runtime {requested} cannot run engine {recipe.engine}", available)
    return requested


def supports_handover(runtime: str, previous: str) -> bool:
    """Whether a server can take over the other's listening socket, so that no request is refused."""
    return runtime == previous == "embedded"


def _best(engine: Engine, available: AvailableRuntimes) -> RuntimeName:
    names: tuple[RuntimeName, ...] = get_args(RuntimeName)
    for name in available.names:
        if engine in RUNS[name]:
            return next(known for known in names if known == name)
    raise _cannot(engine, f"nothing on this machine runs engine {engine}", available)


def _cannot(engine: Engine, what: str, available: AvailableRuntimes) -> Unresolvable:
    able = [name for name, engines in RUNS.items() if engine in engines]
    ready = [name for name in able if name in available.names]
    if ready:
        return Unresolvable(
            f"{what}: its workers have no such engine", hint=f"set endpoint.runtime: {ready[0]}"
        )
    lacking = "; ".join(f"{name} could, but {available.lacking.get(name, 'it is not here')}" for name in able)
    return Unresolvable(f"{what}: {lacking}", hint=f"or choose engine: {' or '.join(_OF_OUR_ENVIRONMENTS)}")
