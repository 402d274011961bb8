"""Recipe to answering deployment: `plan` is `up` stopped before `apply`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lmi_deploy.core.artifact import Artifact
from lmi_deploy.core.cloud_actions import (
    CreateEndpoint,
    CreateEndpointConfig,
    PushWeights,
    RunTransferJob,
    UpdateEndpoint,
)
from lmi_deploy.core.events import Event
from lmi_deploy.core.place import SageMakerPlace
from lmi_deploy.core.plan import FetchWeights, StartServer
from lmi_deploy.core.recipe import Recipe
from lmi_deploy.decide.agreement import require_agreed
from lmi_deploy.decide.diff import FOUNDING, summary
from lmi_deploy.decide.places.encryption import key_notices
from lmi_deploy.decide.places.job import job_notices
from lmi_deploy.decide.render import render
from lmi_deploy.decide.resolve import resolve
from lmi_deploy.steps.apply import apply
from lmi_deploy.steps.bringing import Wish, bring, prove
from lmi_deploy.steps.deps import Deps
from lmi_deploy.steps.fit import require_fit
from lmi_deploy.steps.gather import gather
from lmi_deploy.steps.locked import locked
from lmi_deploy.steps.looking import Case as Case
from lmi_deploy.steps.looking import look, observed_notices
from lmi_deploy.steps.own_code import CARRYING, check_own_code
from lmi_deploy.steps.preflight import preflight
from lmi_deploy.steps.rehearse import NoJournal

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
