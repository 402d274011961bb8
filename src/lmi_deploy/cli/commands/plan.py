"""`lmi plan`."""

from __future__ import annotations

import sys

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.plan_file import save
from lmi_deploy.cli.shared_options import (
    force_fit_option,
    json_option,
    max_hourly_option,
    recipe_argument,
    recipe_options,
    runtime_option,
    with_runtime,
)
from lmi_deploy.errors import CHANGES_PENDING
from lmi_deploy.ui.colour import Paint
from lmi_deploy.ui.json_view import plan_fields
from lmi_deploy.ui.plan_text import plan_lines
from lmi_deploy.workflows import up


@click.command("plan")
@recipe_argument
@recipe_options
@runtime_option
@max_hourly_option
@force_fit_option
@click.option(
    "--out", type=click.Path(dir_okay=False), help="Also write the plan to a file, for `lmi up FILE`."
)
@click.option("--exit-code", is_flag=True, help="Exit with 4 if something would change.")
@json_option
def command(
    *,
    recipe: str | None,
    overlay: str | None,
    sets: tuple[str, ...],
    runtime: str | None,
    max_hourly: float | None,
    force_fit: bool,
    out: str | None,
    exit_code: bool,
    as_json: bool,
) -> int:
    """Show what `lmi up` would change, without changing anything.

    The plan is printed to stdout, warnings to stderr.
    """
    context = open_context(as_json=as_json)
    recipe_read = read_recipe(recipe, overlay=overlay, sets=with_runtime(sets, runtime))
    deployment = up.prepare(recipe_read, context.deps, priced=True, force_fit=force_fit)
    deployment.require_affordable(max_hourly)
    if out is not None:
        save(deployment, out)
    left_out = dict(deployment.spec.weights.left_out)
    chosen = [file.path for file in deployment.spec.weights.files]
    files = f"  files: {len(chosen)} chosen" + "".join(f", {n} {why}" for why, n in left_out.items())
    context.view.words([*plan_lines(deployment.plan, deployment.estimate, Paint(sys.stdout)), files])
    for notice in deployment.notices:
        context.view.note(f"  {notice}")
    if out is not None:
        context.view.note(f"  written to {out}: `lmi up {out}` carries out exactly this plan, or refuses")
    context.view.result(
        {
            **plan_fields(deployment.plan, deployment.estimate),
            "pending": not deployment.plan.empty,
            "files": chosen,
            "left_out": left_out,
        }
    )
    return CHANGES_PENDING if exit_code and not deployment.plan.empty else 0
