"""Recipe to answering deployment: `plan` is `up` stopped before `apply`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lmi_deploy.core.artifact import Artifact
from lmi_deploy.core.events import Event
from lmi_deploy.core.observed import Observed
from lmi_deploy.core.plan import Plan
from lmi_deploy.core.recipe import Recipe
from lmi_deploy.core.record import DeploymentRef, Generation
from lmi_deploy.core.spec import Spec
from lmi_deploy.decide.diff import CLEARING, PROBES, diff, generation, proof, summary
from lmi_deploy.decide.render import render
from lmi_deploy.decide.resolve import resolve
from lmi_deploy.errors import LmiError
from lmi_deploy.ports.target import Target
from lmi_deploy.steps.apply import apply
from lmi_deploy.steps.deps import Deps
from lmi_deploy.steps.diagnose import explain
from lmi_deploy.steps.gather import gather
from lmi_deploy.steps.own_code import check_own_code


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One recipe, followed as far as its plan."""

    spec: Spec
    artifact: Artifact
    observed: Observed
    plan: Plan
    notices: tuple[str, ...] = ()
    """What the user should know that stops nothing."""

    @property
    def ref(self) -> DeploymentRef:
        return self.spec.ref


def prepare(recipe: Recipe, deps: Deps, *, probe: bool = True) -> Case:
    """Everything up to the plan: reads only."""
    spec = resolve(recipe, gather(recipe, deps))
    notices = check_own_code(recipe, spec)
    return replace(look(spec, render(spec), deps, probe=probe), notices=notices)


def look(spec: Spec, artifact: Artifact, deps: Deps, *, probe: bool) -> Case:
    """The plan against the world as it is at this moment."""
    target = deps.targets[spec.target]
    observed = target.observe(spec.ref)
    plan = diff(spec, artifact, observed, target.held(spec, deps.hub(spec.model.model_id)))
    if not probe:
        plan = replace(plan, actions=tuple(a for a in plan.actions if not isinstance(a, PROBES)))
    return Case(spec=spec, artifact=artifact, observed=observed, plan=plan)


def carry_out(case: Case, deps: Deps, *, probe: bool = True) -> Iterator[Event]:
    """Make it so and prove it. A plan that is empty takes no lock, and is proved all the same."""
    target = deps.targets[case.spec.target]
    if case.plan.empty and _told_alike(case):
        if probe:
            yield from _prove(case, target, deps)
        return
    with deps.lock(case.ref).hold(case.spec.name):
        fresh = look(case.spec, case.artifact, deps, probe=probe)
        journal = deps.journal(case.ref)
        perform = target.raising(fresh.spec, fresh.artifact, deps.hub(fresh.spec.model.model_id))
        before, after = _split(fresh.plan)
        try:
            yield from apply(before, perform, journal, deps.clock)
        except LmiError as error:
            explain(error, fresh.spec.engine.name)
            error.hint = "; ".join(filter(None, (error.hint, _unharmed(fresh, target))))
            raise
        if fresh.plan.empty and probe:
            yield from _prove(fresh, target, deps)
        # Settled before the old generation is cleared away: from here on the new one is what serves.
        journal.settle(_generation(fresh, deps))
        yield from apply(after, perform, journal, deps.clock)


def _told_alike(case: Case) -> bool:
    """Whether the record already says of the serving generation what the recipe does now."""
    record = case.observed.record
    return bool(record and record.current and record.current.summary == summary(case.spec, case.artifact))


def _unharmed(case: Case, target: Target) -> str:
    """What goes on as before although bringing up the new generation failed; empty where nothing served."""
    serving = target.observe(case.ref).serving
    if serving is None or serving != case.observed.serving:
        return ""
    return f"{case.spec.name} still serves as it did before, at {target.address(case.ref)}"


def _split(plan: Plan) -> tuple[Plan, Plan]:
    """What brings the new generation up, and what clears the old one away."""
    cut = len(plan.actions)
    while cut and isinstance(plan.actions[cut - 1], CLEARING):
        cut -= 1
    return replace(plan, actions=plan.actions[:cut]), replace(plan, actions=plan.actions[cut:])


def _prove(case: Case, target: Target, deps: Deps) -> Iterator[Event]:
    action = proof(case.spec, case.artifact)
    perform = target.raising(case.spec, case.artifact, deps.hub(case.spec.model.model_id))
    yield from perform[type(action)](action)


def _generation(case: Case, deps: Deps) -> Generation:
    since = deps.clock.now().isoformat(timespec="seconds")
    return generation(case.spec, case.artifact, case.plan, case.observed, since=since)
