"""Recipes read from a file, standard input or the only one in the folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lmi_deploy.domain.recipe_keys import RECIPE_SUFFIXES, Recipe
from lmi_deploy.errors import UsageRefused
from lmi_deploy.errors.recipe_problem import Problem

if TYPE_CHECKING:
    from lmi_deploy.recipe.reader import ParsedFields

_READ_LIMIT = 1_048_577


def read_recipe(
    path: str | None, *, overlay: str | None, sets: Sequence[str], deploying: bool = True
) -> Recipe:
    """Parse the recipe that was named, or the only one in the folder."""
    origin = path or single_recipe()
    return parse_text(read(origin), origin, overlay=overlay, sets=sets, deploying=deploying)


def parse_text(
    text: bytes, origin: str, *, overlay: str | None, sets: Sequence[str], deploying: bool = True
) -> Recipe:
    """The same, of a text that was read from `origin`; with the recipe that `endpoint.candidate` names."""
    recipe = _parse(text, origin, overlay=overlay, sets=sets, deploying=deploying)
    given = recipe.endpoint.candidate
    if given is None or not deploying or recipe.endpoint.target != "sagemaker":
        return recipe
    # Not at the top: few recipes have a candidate.
    from lmi_deploy.api.candidate_recipe import with_candidate
    from lmi_deploy.recipe.parse import positions

    def read_version(path: str, overlay: str | None, sets: Sequence[str]) -> Recipe:
        return _parse(
            read(path) if path else text, path or origin, overlay=overlay, sets=sets, deploying=True
        )

    def where() -> ParsedFields:
        return positions(text, origin, overlay=overlay, sets=sets)

    return with_candidate(recipe, given, read_version, where, overlay=overlay)


def _parse(text: bytes, origin: str, *, overlay: str | None, sets: Sequence[str], deploying: bool) -> Recipe:
    from lmi_deploy.composition.targets import recipe_issues
    from lmi_deploy.recipe.parse import parse
    from lmi_deploy.recipe.reader import Purpose

    folder = Path(origin).parent
    purpose = Purpose(
        deploying=deploying,
        file_error=lambda name: _unread(folder / name),
        folder_error=lambda name: _no_folder(folder / Path(name).expanduser()),
        target_issues=recipe_issues,
    )
    return parse(text, origin, overlay=overlay, sets=sets, purpose=purpose)


def located(
    mistakes: Sequence[tuple[str, str, str]],
    text: bytes,
    origin: str,
    *,
    overlay: str | None,
    sets: Sequence[str],
) -> list[Problem]:
    """Mistakes that were found after parsing (key, what, hint), each at its line of the recipe."""
    from lmi_deploy.recipe.parse import positions

    fields = positions(text, origin, overlay=overlay, sets=sets)
    found = []
    for key, what, hint in mistakes:
        place = fields.place(key)
        line, column = (place.line, place.column) if place else (1, 1)
        source = place.origin if place else origin
        found.append(Problem(origin=source, line=line, column=column, key=key, what=what, hint=hint))
    return sorted(found, key=lambda problem: (problem.line, problem.column))


def _unread(path: Path) -> str:
    try:
        with path.open("rb"):
            return ""
    except OSError as reason:
        return reason.strerror or "cannot be read"


def _no_folder(path: Path) -> str:
    return "" if path.is_dir() else "is a file, not a folder" if path.exists() else "there is no such folder"


def read(origin: str) -> bytes:
    """The file's bytes, at most one more than the size limit of a recipe; `-` is standard input.

    UsageRefused if it cannot be read: a missing recipe has the exit code of a bad one.
    """
    try:
        if origin == "-":
            return sys.stdin.buffer.read(_READ_LIMIT)
        with Path(origin).open("rb") as file:
            return file.read(_READ_LIMIT)
    except OSError as reason:
        local = recipes_here()
        hint = (
            f"recipes here: {', '.join(local)}"
            if local
            else "check the path; `lmi init MODEL` writes a recipe"
        )
        raise UsageRefused(f"{origin}: {reason.strerror}", hint=hint) from None


def single_recipe() -> str:
    local = recipes_here()
    if len(local) == 1:
        return local[0]
    if not local:
        raise UsageRefused("no recipe given, and this folder has none", hint="`lmi init MODEL` writes one")
    raise UsageRefused(
        f"no recipe given, and this folder has {len(local)}: {', '.join(local)}", hint="name one of them"
    )


def as_model_id(text: str) -> str:
    """A folder named without ./ as a recipe names it; any other text unchanged."""
    is_plain = text and not text.startswith(("/", "./", "../", "~", "s3://"))
    return f"./{text}" if is_plain and Path(text).is_dir() else text


def recipes_here() -> list[str]:
    return sorted(
        path.name for path in Path().iterdir() if path.suffix in RECIPE_SUFFIXES and is_recipe(path)
    )


def is_recipe(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"model_id:" in file.read(65536)
    except OSError:
        return False
