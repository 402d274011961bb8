"""`lmi up`."""

from __future__ import annotations

import shlex
from typing import Any

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.api.up import deploying
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.plan_file import PLAN_SUFFIX, load_plan
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import (
    force_fit_option,
    json_option,
    max_hourly_option,
    no_rollback_option,
    recipe_argument,
    recipe_options,
    runtime_option,
    with_runtime,
    yes_option,
)
from lmi_deploy.workflows import up
from lmi_deploy.workflows.deploy import DeployOptions
from lmi_deploy.workflows.deployment_plan import DeploymentPlan


@click.command("up")
@recipe_argument
@recipe_options
@runtime_option
@max_hourly_option
@force_fit_option
@yes_option
@click.option(
    "--detach",
    is_flag=True,
    help="Return at once; `lmi wait NAME` waits until the deployment answers the probe.",
)
@click.option(
    "--check-handler", is_flag=True, help="First make the handler's warm-up call in a worker on this machine."
)
@click.option("--no-probe", is_flag=True, help="Do not send the probe at the end.")
@no_rollback_option
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
    no_rollback: bool,
    as_json: bool,
) -> None:
    """Create or update the deployment of RECIPE, and check that it answers.

    A second `up` changes nothing, but still sends the probe. lmi starts a changed recipe next to the running version,
    sends it a probe, and only then switches the address to it. RECIPE may also be a plan written by `lmi plan --out
    FILE`: lmi carries out exactly this plan, or refuses if the deployment has changed since.
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
    options = DeployOptions(probe=not no_probe, detach=detach, rollback=not no_rollback)
    context.show_events(deploying(deployment, context.deps, options, check_handler=check_handler))
    address = deployment.target.address(deployment.ref)
    if not (detach and deployment.plan.actions):
        context.view.note(_how_to_invoke(deployment, address))
    context.view.result(_how_to_invoke_fields(deployment, address), address)


def _how_to_invoke(deployment: DeploymentPlan, address: str) -> str:
    """Its address, how to invoke it from a shell and from Python, how to stop it."""
    spec = deployment.spec
    where, examples = deployment.target.request_examples(spec, address)
    prompt = (
        '"What is the capital of France?"' if spec.probe.prompt else f"--body {shlex.quote(spec.probe.body)}"
    )
    return f"""
{spec.name} answers at {where}

Invoke it:
  lmi invoke {spec.name} {prompt}
{examples}
Watch and delete it:
  lmi status {spec.name}    lmi logs {spec.name} -f    lmi down {spec.name}
"""


def _how_to_invoke_fields(deployment: DeploymentPlan, address: str) -> dict[str, Any]:
    """The same for a program."""
    return {
        "deployment": deployment.spec.name,
        "target": deployment.spec.target,
        "address": address,
        **deployment.spec.place.fields,
        "changed": not deployment.plan.empty,
        "model": deployment.spec.model.model_id,
        "commit": deployment.spec.model.commit,
        "artifact": deployment.artifact.digest,
    }
