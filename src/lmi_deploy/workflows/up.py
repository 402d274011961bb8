"""Recipe to answering deployment: `plan` is `up` stopped before `apply`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.plan import FetchWeights, StartServer
from lmi_deploy.domain.recipe import Recipe
from lmi_deploy.domain.sagemaker.actions import (
    CreateEndpoint,
    CreateEndpointConfig,
    PushWeights,
    RunTransferJob,
    UpdateEndpoint,
)
from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.planning.agreement import require_agreed
from lmi_deploy.planning.render import render
from lmi_deploy.planning.resolve import resolve
from lmi_deploy.targets.plan import BOOTSTRAP, summary
from lmi_deploy.targets.sagemaker.encryption import key_notices
from lmi_deploy.targets.sagemaker.transfer_job.resolve import job_notices
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deploy import DeployOptions, deploy, send_probe
from lmi_deploy.workflows.deployment_lock import locked
from lmi_deploy.workflows.deployment_plan import DeploymentPlan as DeploymentPlan
from lmi_deploy.workflows.deployment_plan import make_plan, observed_notices
from lmi_deploy.workflows.fit import require_fit
from lmi_deploy.workflows.gather import gather
from lmi_deploy.workflows.handler_dry_run import NoJournal
from lmi_deploy.workflows.handler_validation import CARRYING, check_own_code
from lmi_deploy.workflows.preflight import preflight

LOADS = (StartServer, CreateEndpoint, UpdateEndpoint)
"""Actions after which an engine loads the model."""


def render_only(recipe: Recipe, deps: Dependencies) -> Artifact:
    """The bytes that would ship: without reading any target."""
    spec = resolve(recipe, gather(recipe, deps))
    check_own_code(recipe, spec)
    return render(spec)


def prepare(
    recipe: Recipe, deps: Dependencies, *, probe: bool = True, priced: bool = False, force_fit: bool = False
) -> DeploymentPlan:
    """Everything up to the plan: reads only. `priced`: with costs even if nothing is to be done.

    A plan that loads a model is refused if the model does not fit, unless `force_fit`.
    """
    facts = gather(recipe, deps)
    spec = resolve(recipe, facts)
    of_code = check_own_code(recipe, spec)
    deployment = make_plan(spec, render(spec), deps, probe=probe, priced=priced)
    if deployment.plan.figures and not deployment.plan.empty:
        fits = require_fit(recipe, facts, force=force_fit or not deployment.has_action(LOADS))
        deployment = replace(
            deployment, plan=replace(deployment.plan, figures=(*deployment.plan.figures, ("fit", fits)))
        )
    if _stages_weights(deployment):
        deps.hub(spec.model.model_id).require_space(
            spec.model.listing(spec.weights.files), spec.weights.files
        )
    lines = [*observed_notices(deployment)]
    if deployment.has_action(CARRYING):
        lines += of_code
    if isinstance(spec.place, SageMakerPlace) and deployment.has_action(CreateEndpointConfig):
        lines += key_notices(spec.place)
    if deployment.has_action(RunTransferJob):
        lines += job_notices(recipe, facts)
    deployment = replace(deployment, recipe=recipe.arguments)
    return replace(deployment, notices=(*lines, *preflight(deployment, deps)))


def _stages_weights(deployment: DeploymentPlan) -> bool:
    """Whether the weights are downloaded to this machine first."""
    return any(
        isinstance(action, FetchWeights) or (isinstance(action, PushWeights) and action.via == "snapshot")
        for action in deployment.plan.actions
    )


def execute(
    deployment: DeploymentPlan, deps: Dependencies, *, probe: bool = True, detach: bool = False
) -> Iterator[Event]:
    """Carry out the plan and probe the result. An empty plan takes no lock, and is still probed."""
    target = deps.targets[deployment.spec.target]
    if deployment.plan.empty and _record_matches(deployment):
        if probe:
            yield from send_probe(deployment, target, deps)
        return
    target.remember(deployment.ref)
    # The lock and the record are stored in the bucket: it is created before them.
    bootstrap = tuple(action for action in deployment.plan.actions if isinstance(action, BOOTSTRAP))
    perform = target.deploy_actions(
        deployment.spec, deployment.artifact, deps.hub(deployment.spec.model.model_id)
    )
    yield from apply(replace(deployment.plan, actions=bootstrap), perform, NoJournal(), deps.clock)
    with locked(deployment.ref, deps):
        fresh = make_plan(
            deployment.spec, deployment.artifact, deps, probe=probe, before=deployment.inventory
        )
        require_agreed(deployment.plan, fresh.plan)
        yield from deploy(fresh, deps, DeployOptions(probe=probe, detach=detach))


def _record_matches(deployment: DeploymentPlan) -> bool:
    """Whether the record of the current generation matches the recipe, and no other generation is pending."""
    record = deployment.observed.record
    if record is None or record.current is None or record.coming is not None:
        return False
    return record.current.summary == summary(deployment.spec, deployment.artifact)
