"""`lmi doctor`."""

from __future__ import annotations

import os

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, recipe_options
from lmi_deploy.errors import SetupBroken
from lmi_deploy.ui.setup_text import setup_lines, setup_rows, state_counts, summary


@click.command("doctor")
@click.argument("recipe", required=False, type=click.Path(dir_okay=False), metavar="[RECIPE]")
@recipe_options
@click.option("--offline", is_flag=True, help="Send no request; say what was not checked.")
@json_option
def command(
    *, recipe: str | None, overlay: str | None, sets: tuple[str, ...], offline: bool, as_json: bool
) -> None:
    """Check this machine, AWS and the Hugging Face Hub, and say how to repair what is broken.

    With RECIPE, check only what this recipe needs, and its role, bucket, quota, permissions and model. The command
    changes nothing, and prints no secret. Each check has a time limit. The exit code is 1 if something is broken; a
    warning alone is no error.
    """
    from lmi_deploy.composition.setup_checks import SetupRequest, setup_checks
    from lmi_deploy.workflows.doctor import examine

    context = open_context(as_json=as_json)
    read = read_recipe(recipe, overlay=overlay, sets=sets) if recipe else None
    checks = setup_checks(SetupRequest(recipe=read, offline=offline), context.deps, os.environ)
    found = context.outcome(examine(checks, offline=offline))
    if as_json:
        context.view.rows(setup_rows(found))
    context.view.words(setup_lines(found))
    broken = [check.name for check in found for each in check.findings if each.state == "broken"]
    if broken:
        raise SetupBroken(
            f"{', '.join(dict.fromkeys(broken))}: {summary(found)}",
            hint="do what each `next:` says, then run `lmi doctor` again",
        )
    context.view.result({"states": state_counts(found)})
