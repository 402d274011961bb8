"""`lmi plan`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.output_files import writing
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
from lmi_deploy.errors import CHANGES_PENDING, LmiError
from lmi_deploy.ui.colour import Paint
from lmi_deploy.ui.json_view import plan_fields
from lmi_deploy.ui.plan_markdown import failure_markdown, plan_markdown
from lmi_deploy.ui.plan_text import plan_lines
from lmi_deploy.workflows import up
from lmi_deploy.workflows.deployment_plan import DeploymentPlan
from lmi_deploy.workflows.saved_plan import fingerprint


@click.command("plan")
@recipe_argument
@recipe_options
@runtime_option
@max_hourly_option
@force_fit_option
@click.option(
    "--out", type=click.Path(dir_okay=False), help="Also write the plan to a file, for `lmi up FILE`."
)
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the plan, or why there is none, as Markdown: for a comment of a pull request.",
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
    markdown: Path | None,
    exit_code: bool,
    as_json: bool,
) -> int:
    """Show what `lmi up` would change, without changing anything.

    The plan is printed to stdout, warnings to stderr. If `lmi up` would refuse it, such as for a permission that is
    missing or for --max-hourly, the plan is printed and the command then ends with that error.
    """
    context = open_context(as_json=as_json)
    try:
        recipe_read = read_recipe(recipe, overlay=overlay, sets=with_runtime(sets, runtime))
        deployment = up.preview(recipe_read, context.deps, priced=True, force_fit=force_fit)
    except LmiError as error:
        if markdown is not None:
            _write(markdown, failure_markdown(error))
        raise
    digest, refusal = fingerprint(deployment), _refusal(deployment, max_hourly)
    if markdown is not None:
        plan, estimate, notices = deployment.plan, deployment.estimate, deployment.notices
        _write(markdown, plan_markdown(plan, estimate, notices, digest, refusal=refusal))
    if out is not None and refusal is None:
        save(deployment, out)
    left_out = dict(deployment.spec.weights.left_out)
    chosen = [file.path for file in deployment.spec.weights.files]
    files = f"  files: {len(chosen)} chosen" + "".join(f", {n} {why}" for why, n in left_out.items())
    context.view.words([*plan_lines(deployment.plan, deployment.estimate, Paint(sys.stdout)), files])
    for notice in deployment.notices:
        context.view.note(f"  {notice}")
    if refusal is not None:
        if as_json:
            context.view.plan(deployment.plan, deployment.estimate)
        raise refusal
    if out is not None:
        context.view.note(f"  written to {out}: `lmi up {out}` carries out exactly this plan, or refuses")
    context.view.result(
        {
            **plan_fields(deployment.plan, deployment.estimate),
            "pending": not deployment.plan.empty,
            "files": chosen,
            "left_out": left_out,
            "digest": digest,
        }
    )
    return CHANGES_PENDING if exit_code and not deployment.plan.empty else 0


def _refusal(deployment: DeploymentPlan, max_hourly: float | None) -> LmiError | None:
    """What `lmi up` would raise of this plan."""
    try:
        deployment.require_possible()
        deployment.require_affordable(max_hourly)
    except LmiError as error:
        return error
    return None


def _write(path: Path, text: str) -> None:
    with writing(path):
        path.write_text(text, encoding="utf-8")
