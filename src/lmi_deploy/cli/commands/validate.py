"""`lmi validate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from lmi_deploy.cli.experiment_recipes import require_valid_experiment
from lmi_deploy.cli.recipe_loading import located, read_recipe
from lmi_deploy.cli.shared_options import json_option, recipe_options
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.recipe_weights_keys import is_folder
from lmi_deploy.errors import NotFound, RecipeError, UsageRefused
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.checks.notices import notices
from lmi_deploy.ui.view import View
from lmi_deploy.ui.view_selection import open_view

if TYPE_CHECKING:  # its XML and JSON take 25 ms of a command of 130 ms
    from lmi_deploy.ui.validation_report import Outcomes

REPORTS: Final = ("github", "gitlab", "junit", "sarif")


@click.command("validate")
@click.argument("recipes", nargs=-1, type=click.Path(dir_okay=False), metavar="[RECIPE]...")
@click.option(
    "--hub",
    is_flag=True,
    help="Also read the model's config.json and safetensors headers; check that it fits and runs.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(("text", "json", *REPORTS)),
    default="text",
    show_default=True,
    help="Also print a report on stdout: annotations for GitHub Actions, a Code Quality report for GitLab, JUnit XML, "
    "SARIF 2.1.0. json is --json.",
)
@recipe_options
@json_option
def command(
    *,
    recipes: tuple[str, ...],
    hub: bool,
    output: str,
    overlay: str | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check recipes without network access, and report all mistakes at once, each with its line."""
    if as_json and output in REPORTS:
        raise UsageRefused(f"--json and --format {output} are two outputs", hint="use one of the two")
    view = open_view(as_json=as_json or output == "json")
    outcomes: dict[str, tuple[Problem, ...]] = {}
    good: dict[str, str] = {}
    for path in recipes or (None,):
        try:
            recipe = read_recipe(path, overlay=overlay, sets=sets)
            require_valid_experiment(recipe, overlay, sets)
            verdict = _judge(recipe, overlay, sets, view) if hub or is_folder(recipe.model_id) else ""
        except RecipeError as error:
            outcomes[path or error.problems[0].origin] = error.problems
        except UsageRefused as error:
            if len(recipes) < 2 and (output not in REPORTS or path is None):
                raise
            place = str(path)
            outcomes[place] = (Problem(origin=place, line=1, column=1, key="", what=error.message),)
        else:
            good[recipe.origin] = verdict
            outcomes[recipe.origin] = ()
            for notice in notices(recipe):
                view.note(f"{recipe.origin}: {notice}")
    if output in REPORTS:
        _print_report(output, outcomes)
    _require_valid(outcomes, len(recipes))
    if output not in REPORTS:
        words = [f"{origin}: valid{verdict and f', fit: {verdict}'}" for origin, verdict in good.items()]
        fits = {"fit": good} if any(good.values()) else {}
        view.result({"recipes": [*good], **fits}, "\n".join(words))


def _print_report(output: str, outcomes: Outcomes) -> None:
    from lmi_deploy.ui.validation_report import FORMATS

    if report := FORMATS[output](outcomes):
        click.echo(report)


def _require_valid(outcomes: Outcomes, asked: int) -> None:
    """RecipeError with the mistakes of all recipes."""
    problems = [problem for found in outcomes.values() for problem in found]
    if problems:
        valid = sum(not found for found in outcomes.values())
        count = f"{valid} of {asked} recipes are valid; " if asked > 1 else ""
        raise RecipeError(
            problems,
            hint=f"{count}docs/reference/recipe.md lists every key, `lmi schema` prints the JSON Schema "
            "for an editor",
        )


def _judge(recipe: Recipe, overlay: str | None, sets: Sequence[str], view: View) -> str:
    """The verdict of `lmi fit`. RecipeError with what the engine refuses of this model, each at its line."""
    # Imported here, not above: most recipes are checked without their model.
    from lmi_deploy.cli.context import open_context
    from lmi_deploy.planning.model_compatibility import path_of
    from lmi_deploy.workflows.model_validation import judge_model

    try:
        found = judge_model(recipe, open_context(as_json=False).deps)
    except NotFound as missing:
        mistakes = [("model_id", missing.message, missing.hint)]
    else:
        mistakes = [(path_of(one), one.what, one.hint) for one in found.mistakes]
    if mistakes:
        raise RecipeError(located(mistakes, recipe.origin, overlay=overlay, sets=sets))
    for note in found.notes:
        view.note(f"{recipe.origin}: {note}")
    return found.fit
