"""Text to Recipe: compose, apply overlays and overrides, read and cross-check, and report all mistakes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import RecipeError
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.checks.cross_checks import check
from lmi_deploy.recipe.overrides import Overlays, apply_overrides
from lmi_deploy.recipe.reader import DEPLOYING, MOST_PROBLEMS, ParsedFields, Purpose, RecipeReader
from lmi_deploy.recipe.yaml.composer import Composer
from lmi_deploy.recipe.yaml.source import decode
from lmi_deploy.recipe.yaml.tree import MappingNode, SourcePosition, describe


def parse(
    text: bytes | str,
    origin: str,
    *,
    overlay: str | None = None,
    sets: Sequence[str] = (),
    purpose: Purpose,
) -> Recipe:
    """Parse the recipe in `text`; `origin` is its name in messages. Raises RecipeError with every mistake in it.

    If only its weights are transferred, targets and engines that are not implemented are no mistake.
    """
    partial, problems, overlays = _fields(text, origin, overlay, sets, purpose)
    problems += [*check(partial), *overlays.name_problems(partial)]
    if problems:
        raise _error(problems)
    recipe: Recipe = partial.build()
    if recipe.endpoint.regions and recipe.endpoint.region is None:
        recipe = recipe.in_region(recipe.endpoint.regions[0])
    name = f"{recipe.name}-{overlay}" if overlay else recipe.name
    return replace(recipe, name=name, overlay=overlay, origin=origin, overrides=tuple(sets))


def positions(
    text: bytes | str, origin: str, *, overlay: str | None = None, sets: Sequence[str] = ()
) -> ParsedFields:
    """The fields of a recipe that was parsed before, to say where a key is."""
    return _fields(text, origin, overlay, sets, DEPLOYING)[0]


def _fields(
    text: bytes | str, origin: str, overlay: str | None, sets: Sequence[str], purpose: Purpose
) -> tuple[ParsedFields, list[Problem], Overlays]:
    problems: list[Problem] = []
    overlays = Overlays(_compose(text, origin, problems), overlay)
    table = apply_overrides(sets, overlays.merged(problems), problems)
    reader = RecipeReader(SourcePosition(origin, 1, 1), purpose=purpose)
    reader.read(table)
    return reader.partial, [*problems, *reader.problems], overlays


def _compose(text: bytes | str, origin: str, problems: list[Problem]) -> MappingNode:
    """The mapping that the text contains; RecipeError if there is none, as nothing else can be checked then."""
    source = decode(text, origin)
    if isinstance(source, Problem):
        raise _error([source])
    composer = Composer(source)
    root = composer.compose()
    problems += composer.problems
    if isinstance(root, MappingNode):
        return root
    if not problems:
        place = root.place if root else SourcePosition(origin, 1, 1)
        what = "the recipe is empty" if root is None else f"expected a mapping, not {describe(root)}"
        hint = "start with name, model_id and engine; `lmi init MODEL` writes one"
        problems.append(place.problem("", what, hint))
    raise _error(problems)


def _error(problems: Sequence[Problem]) -> RecipeError:
    ordered = sorted(problems, key=_order)
    more = len(ordered) - MOST_PROBLEMS
    hint = f"{more} further mistakes are not shown" if more > 0 else ""
    return RecipeError(ordered[:MOST_PROBLEMS], hint=hint)


def _order(problem: Problem) -> tuple[int, int, int, str]:
    """The file first, from its top; then each `--set`."""
    if problem.line:
        return 0, problem.line, problem.column, problem.key
    return int(problem.origin.rpartition(":")[2]), 0, problem.column, problem.key
