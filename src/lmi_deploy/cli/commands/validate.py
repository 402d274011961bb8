"""`lmi validate`."""

from __future__ import annotations

import click

from lmi_deploy.cli.options import json_option, recipe_options
from lmi_deploy.cli.recipe_loading import read_recipe
from lmi_deploy.errors import RecipeError, UsageRefused
from lmi_deploy.errors.problem import Problem
from lmi_deploy.ui.selection import open_view


@click.command("validate")
@click.argument("recipes", nargs=-1, type=click.Path(dir_okay=False), metavar="[RECIPE]...")
@recipe_options
@json_option
def command(*, recipes: tuple[str, ...], overlay: str | None, sets: tuple[str, ...], as_json: bool) -> None:
    """Check recipes without touching the network: every mistake at once, with its line."""
    view = open_view(as_json=as_json)
    problems: list[Problem] = []
    good: list[str] = []
    for path in recipes or (None,):
        try:
            recipe = read_recipe(path, overlay=overlay, sets=sets)
        except RecipeError as error:
            problems.extend(error.problems)
        except UsageRefused as error:
            if len(recipes) < 2:
                raise
            problems.append(Problem(origin=str(path), line=1, column=1, key="", what=error.message))
        else:
            good.append(recipe.origin)
    if problems:
        count = f"{len(good)} of {len(recipes)} recipes are good; " if len(recipes) > 1 else ""
        raise RecipeError(
            problems, hint=f"{count}docs/reference/recipe.md has every key, `lmi schema` helps an editor"
        )
    view.result({"recipes": good}, "\n".join(f"{origin}: good" for origin in good))
