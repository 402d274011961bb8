"""`lmi validate`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

from lmi_deploy.api.recipes import Recipe, check
from lmi_deploy.cli.shared_options import json_option, recipe_options, recipes_argument
from lmi_deploy.errors import RecipeError, UsageRefused
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.ui.view_selection import open_view

if TYPE_CHECKING:  # its XML and JSON take 25 ms of a command of 130 ms
    from lmi_deploy.ui.validation_report import Outcomes
    from lmi_deploy.workflows.dependencies import Dependencies

REPORTS: Final = ("github", "gitlab", "junit", "sarif")


@click.command("validate")
@recipes_argument
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
            recipe = Recipe.load(path, set=sets, overlay=overlay)
            found = check(recipe, hub=hub, deps=_deps)
        except UsageRefused as error:
            if len(recipes) < 2 and (output not in REPORTS or path is None):
                raise
            place = str(path)
            outcomes[place] = (Problem(origin=place, line=1, column=1, key="", what=error.message),)
            continue
        outcomes[recipe.origin] = found.problems
        if found.is_valid:
            good[recipe.origin] = found.fit
            for notice in found.notices:
                view.note(f"{recipe.origin}: {notice}")
    if output in REPORTS:
        _print_report(output, outcomes)
    _require_valid(outcomes, len(recipes))
    if output not in REPORTS:
        words = [f"{origin}: valid{verdict and f', fit: {verdict}'}" for origin, verdict in good.items()]
        fits = {"fit": good} if any(good.values()) else {}
        view.result({"recipes": [*good], **fits}, "\n".join(words))


def _print_report(output: str, outcomes: Outcomes) -> None:
    from pathlib import Path

    from lmi_deploy.cli.ci_system import CiSystem
    from lmi_deploy.ui.validation_report import FORMATS

    root = CiSystem.of(os.environ, Path.cwd()).root
    if report := FORMATS[output](outcomes, root):
        click.echo(report)


def _require_valid(outcomes: Outcomes, asked: int) -> None:
    """RecipeError with the mistakes of all recipes."""
    problems = [problem for found in outcomes.values() for problem in found]
    if problems:
        valid = sum(not found for found in outcomes.values())
        count = f"{valid} of {asked} recipes are valid; " if asked > 1 else ""
        raise RecipeError(
            problems,
            hint=f"{count}`lmi docs recipe` lists every key, `lmi schema` prints the JSON Schema for an editor",
        )


def _deps() -> Dependencies:
    # Imported here, not above: most recipes are checked without their model.
    from lmi_deploy.cli.context import open_context

    return open_context(as_json=False).deps
