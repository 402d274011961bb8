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

_OVERRIDE: Final = "--set:"
ReadRecipe = Callable[[str, str | None, Sequence[str]], Recipe]
"""Of a path (empty: this recipe), an overlay, and overrides."""
Refuse = Callable[[str, str], RecipeError]
"""The error at the key `endpoint.candidate`: what is wrong, and a hint."""


def with_candidate(
    recipe: Recipe, given: Candidate, read: ReadRecipe, refuse: Refuse, *, overlay: str | None
) -> Recipe:
    """The overlay of the command line is for a candidate without its own, its overrides are for both."""
    path = str(Path(recipe.origin).parent / given.recipe) if given.recipe else ""
    # Those of the group `endpoint` are about the endpoint, which the candidate does not bring along.
    shared = [one for one in recipe.overrides if not (path and one.startswith("endpoint."))]
    overrides = (*(f"{key}={value}" for key, value in given.set), *shared)
    chosen = given.overlay or (None if path else overlay)
    try:
        other = read(path, chosen, overrides)
    except RecipeError as error:
        (place,) = refuse("", "").problems
        problems = [_located(each, place, len(given.set)) for each in error.problems]
        raise RecipeError(problems, hint=error.hint) from None
    except UsageRefused as error:
        raise UsageRefused(f"endpoint.candidate: {error.message}", hint=error.hint) from None
    # An overlay of the command line may set keys of the endpoint that the candidate's own overlay does not.
    base = read("", None, shared) if overlay and given.overlay else recipe
    for what, hint in _mistakes(base, other, is_file=bool(path)):
        raise refuse(what, hint)
    endpoint = replace(_as_one(recipe.endpoint), count=given.count, volume_gb=other.endpoint.volume_gb)
    candidate = replace(other, name=recipe.name, endpoint=endpoint, ttl=None, bench=None)
    return replace(recipe, candidate=candidate)


def _located(problem: Problem, place: Problem, own: int) -> Problem:
    """A mistake in one of the candidate's `own` overrides is where the recipe has them; the others are the command
    line's.
    """
    key = f"endpoint.candidate: {problem.key}"
    if not problem.origin.startswith(_OVERRIDE):
        return replace(problem, key=key)
    number = int(problem.origin.removeprefix(_OVERRIDE))
    if number > own:
        return replace(problem, key=key, origin=f"{_OVERRIDE}{number - own}")
    return replace(problem, key=key, origin=place.origin, line=place.line, column=place.column)


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


def _mistakes(recipe: Recipe, other: Recipe, *, is_file: bool) -> Iterator[tuple[str, str]]:
    if other.endpoint.target != "sagemaker":
        yield (
            f"its endpoint.target is {other.endpoint.target}",
            "both versions run on one endpoint: sagemaker",
        )
    differs = () if is_file else _other_keys(recipe.endpoint, other.endpoint)
    if differs:
        keys = ", ".join(f"endpoint.{key}" for key in differs)
        what = f"it sets {keys}, and both versions have one endpoint"
        yield what, "remove that from the candidate; its number of instances is endpoint.candidate.count"
    if other.instance_type == AUTO_INSTANCE or len(other.instance_type) != 1:
        given = ", ".join(other.instance_type) or "missing"
        yield (
            f"its instance_type is {given}",
            "write one type, for example by set: {instance_type: ml.g5.xlarge}",
        )
    if other.compile is not None:
        yield "not yet: a candidate with `compile`", "compile it as the version that serves"
    if other.container.build is not None:
        yield (
            "not yet: a candidate with container.build",
            "write container.image, the address of a built image",
        )
    if other.weights.in_place and other.model_id != recipe.model_id:
        yield "not yet: a candidate with weights.in_place of its own", "omit it: lmi copies the weights"


def _other_keys(own: Endpoint, other: Endpoint) -> tuple[str, ...]:
    names = (field.name for field in fields(Endpoint) if field.name not in ("volume_gb", "candidate"))
    return tuple(name for name in names if getattr(own, name) != getattr(other, name))
