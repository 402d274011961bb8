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
from lmi_deploy.targets.plan import FOUNDING, summary
from lmi_deploy.targets.sagemaker.encryption import key_notices
from lmi_deploy.targets.sagemaker.transfer_job.resolve import job_notices
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Deps
from lmi_deploy.workflows.deploy import Wish, bring, prove
from lmi_deploy.workflows.deployment_lock import locked
from lmi_deploy.workflows.deployment_plan import Case as Case
from lmi_deploy.workflows.deployment_plan import look, observed_notices
from lmi_deploy.workflows.fit import require_fit
from lmi_deploy.workflows.gather import gather
from lmi_deploy.workflows.handler_dry_run import NoJournal
from lmi_deploy.workflows.handler_validation import CARRYING, check_own_code
from lmi_deploy.workflows.preflight import preflight

LOADS = (StartServer, CreateEndpoint, UpdateEndpoint)
"""Actions after which an engine loads the model."""


def draw(recipe: Recipe, deps: Deps) -> Artifact:
    """The bytes that would ship: no target is looked at."""
    spec = resolve(recipe, gather(recipe, deps))
    check_own_code(recipe, spec)
    return render(spec)


def prepare(
    recipe: Recipe, deps: Deps, *, probe: bool = True, priced: bool = False, force_fit: bool = False
) -> Case:
    """Everything up to the plan: reads only. `priced`: it tells what it costs though nothing is to be done.

    A plan that loads a model is refused where the model does not fit, unless `force_fit`."""
    facts = gather(recipe, deps)
    spec = resolve(recipe, facts)
    of_code = check_own_code(recipe, spec)
    case = look(spec, render(spec), deps, probe=probe, priced=priced)
    if case.plan.figures and not case.plan.empty:
        fits = require_fit(recipe, facts, deps, force=force_fit or not case.does(LOADS))
        case = replace(case, plan=replace(case.plan, figures=(*case.plan.figures, ("fit", fits))))
    if _stages_weights(case):
        deps.hub(spec.model.model_id).require_room(spec.model.listing(spec.weights.files), spec.weights.files)
    told = [*observed_notices(case)]
    if case.does(CARRYING):
        told += of_code
    if isinstance(spec.place, SageMakerPlace) and case.does(CreateEndpointConfig):
        told += key_notices(spec.place)
    if case.does(RunTransferJob):
        told += job_notices(recipe, facts)
    case = replace(case, recipe=recipe.arguments)
    return replace(case, notices=(*told, *preflight(case, deps)))


def _stages_weights(case: Case) -> bool:
    """Whether the weights come onto a disk of this machine first."""
    return any(
        isinstance(action, FetchWeights) or (isinstance(action, PushWeights) and action.via == "snapshot")
        for action in case.plan.actions
    )


def carry_out(case: Case, deps: Deps, *, probe: bool = True, detach: bool = False) -> Iterator[Event]:
    """Make it so and prove it. A plan that is empty takes no lock, and is proved all the same."""
    target = deps.targets[case.spec.target]
    if case.plan.empty and _told_alike(case):
        if probe:
            yield from prove(case, target, deps)
        return
    target.remember(case.ref)
    # The lock and the record lie in the bucket: it comes before them.
    founding = tuple(action for action in case.plan.actions if isinstance(action, FOUNDING))
    perform = target.raising(case.spec, case.artifact, deps.hub(case.spec.model.model_id))
    yield from apply(replace(case.plan, actions=founding), perform, NoJournal(), deps.clock)
    with locked(case.ref, deps):
        fresh = look(case.spec, case.artifact, deps, probe=probe, before=case.held)
        require_agreed(case.plan, fresh.plan)
        yield from bring(fresh, deps, Wish(probe=probe, detach=detach))


def _told_alike(case: Case) -> bool:
    """Whether the record already says of the serving generation what the recipe does now, and of no other to come."""
    record = case.observed.record
    if record is None or record.current is None or record.coming is not None:
        return False
    return record.current.summary == summary(case.spec, case.artifact)
