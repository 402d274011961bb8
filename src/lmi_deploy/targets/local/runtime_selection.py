"""Target local: which runtime runs a recipe."""

from __future__ import annotations

from typing import Final, get_args

from lmi_deploy.domain.gathered_facts import AvailableRuntimes
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Engine, Recipe
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.errors import Unresolvable

_NAMES: Final[tuple[RuntimeName, ...]] = get_args(RuntimeName)


def runtime_of(recipe: Recipe, available: AvailableRuntimes) -> RuntimeName:
    """The runtime that the recipe names, else the best available one that runs its engine. Raises Unresolvable."""
    requested = recipe.endpoint.runtime
    if requested == "auto":
        return _best(recipe, available)
    if requested not in available.names:
        why = available.lacking.get(requested, "it is not on this machine")
        raise Unresolvable(
            f"endpoint.runtime: {requested} is not available on this machine: {why}",
            hint=f"available: {', '.join(available.names)}",
        )
    if requested not in _able(recipe):
        raise _cannot(recipe, f"runtime {requested} cannot run {_engine_words(recipe)}", available)
    return requested


def can_run(runtime: RuntimeName, engine: Engine) -> bool:
    """An image contains its own engine; otherwise the engine must name the runtime."""
    module = ENGINES.get(engine)
    return runtime == "container" or (module is not None and runtime in module.local_runtimes)


def supports_handover(runtime: str, previous: str) -> bool:
    """Whether a server can take over the other's listening socket, so that no request is refused."""
    return runtime == previous == "embedded"


def _best(recipe: Recipe, available: AvailableRuntimes) -> RuntimeName:
    able = _able(recipe)
    for name in available.names:
        if name in able:
            return next(known for known in able if known == name)
    raise _cannot(recipe, f"no runtime on this machine runs {_engine_words(recipe)}", available)


def _cannot(recipe: Recipe, what: str, available: AvailableRuntimes) -> Unresolvable:
    able = _able(recipe)
    ready = [name for name in able if name in available.names]
    if ready:
        return Unresolvable(
            f"{what}: its workers do not have this engine", hint=f"set endpoint.runtime: {ready[0]}"
        )
    lacking = "; ".join(
        f"{name} could, but {available.lacking.get(name, 'it is not available')}" for name in able
    )
    without_image = [name for name, module in ENGINES.items() if module.local_runtimes]
    return Unresolvable(f"{what}: {lacking}", hint=f"or choose engine: {' or '.join(without_image)}")


def _able(recipe: Recipe) -> list[RuntimeName]:
    if recipe.runs_own_image:
        return ["container"]
    return [name for name in _NAMES if name != "auto" and can_run(name, recipe.engine)]


def _engine_words(recipe: Recipe) -> str:
    return "the server of container.image" if recipe.runs_own_image else f"engine {recipe.engine}"
