"""`lmi up`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.api.up import deploying
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.model_recipe import is_hub_model, recipe_of_model
from lmi_deploy.cli.parallel_up import ParallelUp, prepare_all, require_agreement
from lmi_deploy.cli.plan_file import PLAN_SUFFIX, load_plan
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import (
    force_fit_option,
    json_option,
    lock_timeout_option,
    max_hourly_option,
    no_rollback_option,
    recipe_options,
    recipes_argument,
    runtime_option,
    with_runtime,
    yes_option,
)
from lmi_deploy.errors import StalePlan
from lmi_deploy.workflows import up
from lmi_deploy.workflows.call_examples import call_examples
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deploy import DeployOptions
from lmi_deploy.workflows.deployment_plan import DeploymentPlan


@click.command("up")
@recipes_argument
@recipe_options
@runtime_option
@max_hourly_option
@force_fit_option
@lock_timeout_option
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
@click.option(
    "--take-over",
    is_flag=True,
    help="With --yes: also replace what a recipe of another file or repository deployed under this name.",
)
@click.option(
    "--parallel",
    type=click.IntRange(1, 32),
    default=4,
    show_default=True,
    metavar="N",
    help="Of several recipes: how many are deployed at a time.",
)
@click.option("--agreed", type=click.Path(dir_okay=False), hidden=True)
@json_option
def command(
    *,
    recipes: tuple[str, ...],
    max_hourly: float | None,
    yes: bool,
    parallel: int,
    as_json: bool,
    **flags: Any,
) -> None:
    """Create or update the deployment of RECIPE, and check that it answers.

    A second `up` changes nothing, but still sends the probe. lmi starts a changed recipe next to the running version,
    sends it a probe, and only then switches the address to it.

    RECIPE may also be the id of a model on the Hub (owner/name): lmi then writes the recipe first, as `lmi init` does,
    and shows the plan. Or a plan written by `lmi plan --out FILE`: lmi carries out exactly this plan, or refuses if
    the deployment has changed since. With several recipes, lmi shows all plans and asks once; --max-hourly then limits
    all together. A failure of one leaves the others alone.
    """
    context = open_context(as_json=as_json)
    paths = [recipe_of_model(recipe, context) if is_hub_model(recipe) else recipe for recipe in recipes]
    options = _UpOptions(**flags)
    if len(paths) < 2:
        _up_one(paths[0] if paths else None, options, context, max_hourly=max_hourly, yes=yes)
        return
    many = ParallelUp(
        plans=prepare_all(paths, lambda path: options.prepare(path, context.deps)),
        flags=options.words(),
        most=parallel,
        max_hourly=max_hourly,
    )
    if yes and not options.take_over:
        for plan in many.plans.values():
            plan.require_same_recipe()
    many.agree(context, yes=yes)
    many.run(context)


@dataclass(frozen=True, slots=True, kw_only=True)
class _UpOptions:
    """The options that say how one recipe is deployed."""

    overlay: str | None
    sets: tuple[str, ...]
    runtime: str | None
    force_fit: bool
    detach: bool
    check_handler: bool
    no_probe: bool
    no_rollback: bool
    take_over: bool
    agreed: str | None

    def prepare(self, recipe: str | None, deps: Dependencies) -> DeploymentPlan:
        """The plan of a recipe, or the one in a file."""
        if recipe is not None and recipe.endswith(PLAN_SUFFIX):
            return load_plan(recipe, deps, probe=not self.no_probe)
        read = read_recipe(recipe, overlay=self.overlay, sets=with_runtime(self.sets, self.runtime))
        return up.prepare(read, deps, probe=not self.no_probe, force_fit=self.force_fit)

    def words(self) -> list[str]:
        """The same options for another `lmi up`."""
        words = [f"--set={pair}" for pair in with_runtime(self.sets, self.runtime)]
        words += [] if self.overlay is None else [f"--overlay={self.overlay}"]
        flags = ("force_fit", "detach", "check_handler", "no_probe", "no_rollback", "take_over")
        return words + [f"--{flag.replace('_', '-')}" for flag in flags if getattr(self, flag)]


def _up_one(
    recipe: str | None, options: _UpOptions, context: CommandContext, *, max_hourly: float | None, yes: bool
) -> None:
    """With --yes and --lock-timeout no user agreed to one plan: it is made again if another lmi has changed the
    deployment while this one waited for it.
    """
    wait, planned = context.deps.lock_wait, yes and not (recipe or "").endswith(PLAN_SUFFIX)
    while True:
        try:
            return _up_once(recipe, options, context, max_hourly=max_hourly, yes=yes)
        except StalePlan as stale:
            if not (planned and wait.waited):
                raise
            context.view.note(f"{stale.message}; planned again")
            wait.waited = False


def _up_once(
    recipe: str | None, options: _UpOptions, context: CommandContext, *, max_hourly: float | None, yes: bool
) -> None:
    deployment = options.prepare(recipe, context.deps)
    deployment.require_affordable(max_hourly)
    if options.agreed is not None:
        require_agreement(options.agreed, deployment)
    context.show_plan(deployment.plan, deployment.estimate, deployment.notices)
    unattended = yes and options.agreed is None and not (recipe or "").endswith(PLAN_SUFFIX)
    if unattended and not options.take_over:
        deployment.require_same_recipe()
    if not deployment.plan.empty:
        confirm("Go ahead?", yes=yes, free=not deployment.target.billed)
    how = DeployOptions(
        probe=not options.no_probe,
        detach=options.detach,
        rollback=not options.no_rollback,
        max_hourly=max_hourly,
        unattended=unattended,
    )
    deployment = context.outcome(
        deploying(deployment, context.deps, how, check_handler=options.check_handler)
    )
    address = deployment.target.address(deployment.ref)
    if options.agreed is None and not (options.detach and deployment.plan.actions):
        context.view.note(_how_to_call(deployment, address), copied=True)
    context.view.result(_how_to_invoke_fields(deployment, address), address)


def _how_to_call(deployment: DeploymentPlan, address: str) -> str:
    """Its address; and of a new deployment how to call it from a shell and from Python, and how to stop it."""
    spec, ref, target = deployment.spec, deployment.ref, deployment.target
    server = f" ({spec.place.words})" * bool(spec.place.words)
    where = f"{spec.name} answers at {address}{server}"
    if deployment.observed.serving is not None:
        return f"{where}; `{ref.command('status')} --calls` prints how to call it"
    return f"\n{where}\n\n{call_examples(ref, target.serving(spec, deployment.artifact), target, address)}\n"


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
