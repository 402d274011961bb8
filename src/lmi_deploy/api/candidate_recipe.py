"""The recipe of the version that `endpoint.candidate` names, and its mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from lmi_deploy.domain.recipe_candidate_keys import Candidate
from lmi_deploy.domain.recipe_endpoint_keys import Endpoint
from lmi_deploy.domain.recipe_keys import AUTO_INSTANCE, Recipe
from lmi_deploy.errors import RecipeError, UsageRefused
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.overrides import missing_overlay
from lmi_deploy.recipe.reader import ParsedFields

_KEY: Final = "endpoint.candidate"
_OVERRIDE: Final = "--set:"
ReadRecipe = Callable[[str, str | None, Sequence[str]], Recipe]
"""Of a path (empty: this recipe), an overlay, and overrides."""


def with_candidate(
    recipe: Recipe,
    given: Candidate,
    read: ReadRecipe,
    positions: Callable[[], ParsedFields],
    *,
    overlay: str | None,
) -> Recipe:
    """The overlay of the command line is for a candidate without its own, its overrides are for both. `positions`:
    where the recipe's keys are.
    """
    path = str(Path(recipe.origin).parent / given.recipe) if given.recipe else ""
    # Those of the group `endpoint` are about the endpoint, which the candidate does not bring along.
    shared = {
        number: one
        for number, one in enumerate(recipe.overrides, start=1)
        if not (path and one.startswith("endpoint."))
    }
    overrides = (*(f"{key}={value}" for key, value in given.set), *shared.values())
    chosen = given.overlay or (None if path else overlay)
    try:
        other = read(path, chosen, overrides)
    except RecipeError as error:
        fields = positions()
        problems = [_located(each, given, [*shared], fields) for each in error.problems]
        problems.sort(key=lambda each: (each.origin, each.line, each.column))
        raise RecipeError(problems, hint=error.hint) from None
    except UsageRefused as error:
        what = f"cannot be read: {error.message}"
        key = f"{_KEY}.recipe"
        problem = positions().value_place(key).problem(key, what, "the path is relative to this recipe")
        raise RecipeError([problem]) from None
    # An overlay of the command line may set keys of the endpoint that the candidate's own overlay does not.
    base = read("", None, [*shared.values()]) if overlay and given.overlay else recipe
    for key, what, hint in _mistakes(base, other, is_file=bool(path)):
        place = positions().place(_source(given, key))
        raise RecipeError([place.problem(_KEY, what, hint)])
    endpoint = replace(_as_one(recipe.endpoint), count=given.count, volume_gb=other.endpoint.volume_gb)
    candidate = replace(other, name=recipe.name, endpoint=endpoint, ttl=None, bench=None)
    return replace(recipe, candidate=candidate)


def _located(problem: Problem, given: Candidate, shared: Sequence[int], fields: ParsedFields) -> Problem:
    """A mistake in the candidate's overlay or in one of its overrides is where the recipe has it. The overrides after
    these are the command line's, with the numbers `shared`.
    """
    if given.overlay and problem.what == missing_overlay(given.overlay):
        key = f"{_KEY}.overlay"
        return fields.value_place(key).problem(key, problem.what, problem.hint)
    key = f"{_KEY}: {problem.key}" if problem.key else _KEY
    if not problem.origin.startswith(_OVERRIDE):
        return replace(problem, key=key)
    number = int(problem.origin.removeprefix(_OVERRIDE)) - 1
    if number >= len(given.set):
        return replace(problem, key=key, origin=f"{_OVERRIDE}{shared[number - len(given.set)]}")
    name = given.set[number][0]
    path = f"{_KEY}.set.{name}"
    # Column 1 is the key's; the value begins after the equals sign.
    place = fields.place(path) if problem.column <= len(name) + 1 else fields.value_place(path)
    return place.problem(key, problem.what, problem.hint)


def _source(given: Candidate, key: str) -> str:
    """The key of the group that gave the candidate its `key`."""
    for name, _ in given.set:
        if key == name or key.startswith(f"{name}."):
            return f"{_KEY}.set.{name}"
    return f"{_KEY}.overlay" if given.overlay else f"{_KEY}.recipe"


def _as_one(endpoint: Endpoint) -> Endpoint:
    """Of one variant, without what belongs to the endpoint as a whole or to the version that serves."""
    return replace(
        endpoint,
        candidate=None,
        autoscaling=None,
        alarms=None,
        data_capture=None,
        update=None,
        scheduler_role=None,
    )


def _mistakes(recipe: Recipe, other: Recipe, *, is_file: bool) -> Iterator[tuple[str, str, str]]:
    """The key that is wrong, what is wrong, and a hint."""
    if other.endpoint.target != "sagemaker":
        yield (
            "endpoint.target",
            f"its endpoint.target is {other.endpoint.target}",
            "both versions run on one endpoint: sagemaker",
        )
    differs = () if is_file else _other_keys(recipe.endpoint, other.endpoint)
    if differs:
        keys = ", ".join(f"endpoint.{key}" for key in differs)
        what = f"it sets {keys}, and both versions have one endpoint"
        hint = "remove that from the candidate; its number of instances is endpoint.candidate.count"
        yield f"endpoint.{differs[0]}", what, hint
    if other.instance_type == AUTO_INSTANCE or len(other.instance_type) != 1:
        given = ", ".join(other.instance_type) or "missing"
        yield (
            "instance_type",
            f"its instance_type is {given}",
            "write one type, for example by set: {instance_type: ml.g5.xlarge}",
        )
    if other.compile is not None:
        yield "compile", "not yet: a candidate with `compile`", "compile it as the version that serves"
    if other.container.build is not None:
        yield (
            "container.build",
            "not yet: a candidate with container.build",
            "write container.image, the address of a built image",
        )
    if other.weights.in_place and other.model_id != recipe.model_id:
        what = "not yet: a candidate with weights.in_place of its own"
        yield "model_id", what, "omit it: lmi copies the weights"


def _other_keys(own: Endpoint, other: Endpoint) -> tuple[str, ...]:
    names = (field.name for field in fields(Endpoint) if field.name not in ("volume_gb", "candidate"))
    return tuple(name for name in names if getattr(own, name) != getattr(other, name))
