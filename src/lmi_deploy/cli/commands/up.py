"""`lmi up`."""

from __future__ import annotations

import click

from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.next_steps import how_to_invoke, how_to_invoke_fields
from lmi_deploy.cli.options import (
    force_fit_option,
    json_option,
    max_hourly_option,
    recipe_argument,
    recipe_options,
    runtime_option,
    with_runtime,
    yes_option,
)
from lmi_deploy.cli.plan_file import PLAN_SUFFIX, load_plan
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.recipe_loading import read_recipe
from lmi_deploy.workflows import handler_dry_run, up


@click.command("up")
@recipe_argument
@recipe_options
@runtime_option
@max_hourly_option
@force_fit_option
@yes_option
@click.option(
    "--detach", is_flag=True, help="Do not wait until it serves; `lmi wait NAME` does, and asks it."
)
@click.option(
    "--check-handler", is_flag=True, help="Make the handler's warm-up call in a worker on this machine first."
)
@click.option("--no-probe", is_flag=True, help="Do not end with one real inference.")
@json_option
def command(
    *,
    recipe: str | None,
    overlay: str | None,
    sets: tuple[str, ...],
    runtime: str | None,
    max_hourly: float | None,
    force_fit: bool,
    yes: bool,
    detach: bool,
    check_handler: bool,
    no_probe: bool,
    as_json: bool,
) -> None:
    """Make the deployment what RECIPE says, and prove that it answers.

    A second `up` changes nothing, and still asks for one real answer. A changed recipe is brought up beside what
    serves, asked, and only then takes the address. RECIPE may be a plan that `lmi plan --out FILE` wrote: that very
    plan is carried out, or refused where the world has changed since.
    """
    context = open_context(as_json=as_json)
    if recipe is not None and recipe.endswith(PLAN_SUFFIX):
        deployment = load_plan(recipe, context.deps, probe=not no_probe)
    else:
        recipe_read = read_recipe(recipe, overlay=overlay, sets=with_runtime(sets, runtime))
        deployment = up.prepare(recipe_read, context.deps, probe=not no_probe, force_fit=force_fit)
    deployment.require_affordable(max_hourly)
    context.view.plan(deployment.plan, deployment.estimate)
    for notice in deployment.notices:
        context.view.note(f"  {notice}")
    if not deployment.plan.empty:
        confirm("Go ahead?", yes=yes, free=not deployment.target.billed)
    if handler_dry_run.is_due(deployment, context.deps, requested=check_handler):
        context.show_events(handler_dry_run.rehearse(deployment.spec, deployment.artifact, context.deps))
    elif skipped := handler_dry_run.skipped_reason(deployment, context.deps, requested=check_handler):
        context.view.note(skipped)
    context.run(up.execute(deployment, context.deps, probe=not no_probe, detach=detach))
    address = deployment.target.address(deployment.ref)
    if not (detach and deployment.plan.actions):
        context.view.note(how_to_invoke(deployment, address))
    context.view.result(how_to_invoke_fields(deployment, address), address)
