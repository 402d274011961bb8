"""Text to Recipe: compose, apply overlays and overrides, read and cross-check, and report all mistakes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmi_deploy.domain.recipe import Recipe
from lmi_deploy.errors import RecipeError
from lmi_deploy.errors.problem import Problem
from lmi_deploy.recipe.builder import build
from lmi_deploy.recipe.checks.cross_checks import check
from lmi_deploy.recipe.model.declaration import RECIPE
from lmi_deploy.recipe.overlays import Overlays
from lmi_deploy.recipe.overrides import applied
from lmi_deploy.recipe.reader import DEPLOYING, MOST_PROBLEMS, ParsedFields, Purpose, RecipeReader
from lmi_deploy.recipe.yaml.composer import Composer
from lmi_deploy.recipe.yaml.source import decode
from lmi_deploy.recipe.yaml.tree import InvalidNode, MappingNode, SourcePosition, describe


def parse(
    text: bytes | str,
    origin: str,
    *,
    overlay: str | None = None,
    sets: Sequence[str] = (),
    purpose: Purpose = DEPLOYING,
) -> Recipe:
    """Parse the recipe in `text`; `origin` is its name in messages. Raises RecipeError with every mistake in it.

    If only its weights are transferred, targets and engines that are not implemented are no mistake.
    """
    partial, problems, overlays = _fields(text, origin, overlay, sets, purpose)
    problems += [*check(partial), *overlays.name_problems(partial)]
    if problems:
        raise _error(problems)
    recipe = build(RECIPE, partial)
    return replace(overlays.named(recipe, origin), overrides=tuple(sets))


def positions(
    text: bytes | str, origin: str, *, overlay: str | None = None, sets: Sequence[str] = ()
) -> ParsedFields:
    """The fields of a recipe that was parsed before, to say where a key is."""
    return _fields(text, origin, overlay, sets, DEPLOYING)[0]


def _fields(
    text: bytes | str, origin: str, overlay: str | None, sets: Sequence[str], purpose: Purpose
) -> tuple[ParsedFields, list[Problem], Overlays]:
    table, problems = _written(text, origin)
    if table is None:
        raise _error(problems)
    overlays = Overlays(table, overlay)
    table = overlays.merged(problems)
    table = applied(sets, table, RECIPE, problems)
    reader = RecipeReader(RECIPE, SourcePosition(origin, 1, 1), purpose=purpose)
    reader.read(table)
    return reader.partial, [*problems, *reader.problems], overlays


def _written(text: bytes | str, origin: str) -> tuple[MappingNode | None, list[Problem]]:
    source = decode(text, origin)
    if isinstance(source, Problem):
        return None, [source]
    composer = Composer(source)
    root = composer.compose()
    if isinstance(root, MappingNode):
        return root, composer.problems
    if not composer.problems:
        place = root.place if root else SourcePosition(origin, 1, 1)
        what = "the recipe is empty" if root is None else f"expected a mapping, not {describe(root)}"
        hint = "start with name, model_id and engine; `lmi init MODEL` writes one"
        composer.problems.append(
            Problem(origin=place.origin, line=place.line, column=place.column, key="", what=what, hint=hint)
        )
    assert root is None or not isinstance(root, InvalidNode) or composer.problems
    return None, composer.problems


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
