"""`lmi.up`: create or update a deployment, step by step."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from lmi_deploy.api.deployments import Deployment
from lmi_deploy.api.plans import Plan, RecipeLike, carried_out, opened
from lmi_deploy.api.run import Run
from lmi_deploy.api.session import dependencies
from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.workflows import handler_dry_run
from lmi_deploy.workflows import up as up_workflow
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deploy import DeployOptions
from lmi_deploy.workflows.deployment_plan import DeploymentPlan
from lmi_deploy.workflows.interruption import recorded


def up(
    recipe: RecipeLike | Plan,
    *,
    max_hourly: float | None = None,
    probe: bool = True,
    detach: bool = False,
    force_fit: bool = False,
    take_over: bool = False,
) -> Run[Deployment]:
    """Create or update the deployment of a recipe, and check that it answers.

    It asks no question: look at `lmi.plan(recipe)` first, or limit the price with `max_hourly`. Nothing happens before
    the first event is asked for. `detach`: ends when the server is starting. `probe`: send a request at the end.
    `take_over`: also replace what a recipe of another file or repository deployed under this name.

    The events one by one:

        run = lmi.up("chat.yaml")
        for event in run:
            print(event)
        deployment = run.result()

    All at once, with a line for each step:

        deployment = lmi.up("chat.yaml").result(lmi.show)
    """
    steps = _steps(
        recipe,
        max_hourly=max_hourly,
        probe=probe,
        detach=detach,
        force_fit=force_fit,
        take_over=take_over,
    )
    return Run("lmi.up", steps)


def _steps(
    recipe: RecipeLike | Plan,
    *,
    max_hourly: float | None,
    probe: bool,
    detach: bool,
    force_fit: bool,
    take_over: bool,
) -> Generator[Event, None, Deployment]:
    if isinstance(recipe, Plan):
        prepared, deps = carried_out(recipe)
    else:
        deps = dependencies()
        prepared = up_workflow.prepare(opened(recipe).parse(), deps, probe=probe, force_fit=force_fit)
    prepared.require_possible()
    prepared.require_affordable(max_hourly)
    yield from (Notice(text=notice) for notice in prepared.notices)
    unattended = not isinstance(recipe, Plan)
    if unattended and not take_over:
        prepared.require_same_recipe()
    options = DeployOptions(probe=probe, detach=detach, max_hourly=max_hourly, unattended=unattended)
    deployed = yield from deploying(prepared, deps, options)
    return Deployment(deployed.ref, deps)


def deploying(
    prepared: DeploymentPlan, deps: Dependencies, options: DeployOptions, *, check_handler: bool = False
) -> Generator[Event, None, DeploymentPlan]:
    """Carry out a plan to which the user agreed: first the warm-up call of new code on this machine, if it is due.

    Returns the plan that was carried out in the end: maybe that of another region of the recipe.
    """
    deployed = prepared

    def events() -> Iterator[Event]:
        nonlocal deployed
        deployed = yield from up_workflow.execute(prepared, deps, options)

    if handler_dry_run.is_due(prepared, deps, requested=check_handler):
        yield from handler_dry_run.rehearse(prepared.spec, prepared.artifact, deps)
    elif skipped := handler_dry_run.skipped_reason(prepared, deps, requested=check_handler):
        yield Notice(text=skipped)
    yield from recorded(events())
    return deployed
