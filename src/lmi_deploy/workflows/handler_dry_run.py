"""A handler's warm-up call, made in a worker on this machine before anything is paid for.

The very artifact that would ship is started here by target local's own actions, waited for until it has loaded the
model, and taken away again. What the worker says of a handler is what it would say in the cloud.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Final

from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.naming import digest, short
from lmi_deploy.domain.observed import LocalHeld
from lmi_deploy.domain.plan import Action, ProbeServer
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.actions import CreateModel
from lmi_deploy.domain.spec import Spec
from lmi_deploy.domain.target_spec import LocalPlace, SageMakerPlace
from lmi_deploy.errors import LmiError, Unresolvable
from lmi_deploy.targets.local.resolve import LOCAL_HOST, device_of
from lmi_deploy.targets.local.runtime_selection import RUNS
from lmi_deploy.targets.plan import diff, teardown
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Deps
from lmi_deploy.workflows.deployment_plan import Case
from lmi_deploy.workflows.error_diagnosis import explain

RUNTIME: Final = "embedded"
STARTUP: Final = 1800
"""Seconds: a processor is slower to load a model than the device that it is meant for."""


class NoJournal:
    """A rehearsal leaves no history."""

    def intend(self, action: Action) -> None: ...

    def done(self, action: Action, outcome: str) -> None: ...

    def expect(self, generation: Generation) -> None: ...

    def settle(self, generation: Generation) -> None: ...


def missing(spec: Spec, deps: Deps) -> str:
    """Why a rehearsal would cost more than its time, in words; empty where all that it needs is on this machine."""
    if spec.engine.name not in RUNS[RUNTIME]:
        return f"engine {spec.engine.name} does not run on this machine"
    held = deps.targets["local"].held(spec, deps.hub(spec.model.model_id))
    if not isinstance(held, LocalHeld):
        return "target local is not on this machine"
    lacking = {
        "DJL's Python engine": not held.engine,
        "the serving environment": not held.environment,
        "the weights": held.missing_weights > 0,
    }
    words = [what for what, lacks in lacking.items() if lacks]
    return f"not on this machine yet: {', '.join(words)}" if words else ""


def is_due(case: Case, deps: Deps, *, asked: bool) -> bool:
    """Whether the handler is tried here: as asked, or where somebody's own code is new and trying it builds nothing."""
    return asked or (_is_promised(case) and not missing(case.spec, deps))


def not_made(case: Case, deps: Deps, *, asked: bool) -> str:
    """What is said where the warm-up call that `plan` speaks of is not made; empty where it is, or was never due."""
    why = missing(case.spec, deps) if _is_promised(case) and not asked else ""
    if not why:
        return ""
    return f"the handler's warm-up call is not made on this machine first ({why}); --check-handler makes it"


def _is_promised(case: Case) -> bool:
    own = bool(case.spec.inputs.model_py)
    return isinstance(case.spec.place, SageMakerPlace) and case.does(CreateModel) and own


def rehearse(spec: Spec, artifact: Artifact, deps: Deps) -> Generator[Event, None, None]:
    """DeployFailed, with the worker's own words, where the handler does not come up; nothing of it stays."""
    if spec.engine.name not in RUNS[RUNTIME]:
        raise Unresolvable(
            f"--check-handler: engine {spec.engine.name} does not run on this machine",
            hint="leave it out: model.py is checked by its syntax tree all the same",
        )
    yield Notice(text="trying the handler in a worker on this machine first; nothing of that stays")
    here = _here(spec, artifact, deps)
    with deps.lock(here.ref).hold(here.name):
        # What a rehearsal left that was killed.
        yield from _taken_away(here, deps)
        try:
            yield from _raised(here, artifact, deps)
        except LmiError as error:
            error.message = f"tried on this machine before anything is created: {error.message}"
            # Its log goes with it: what matters of it came with the error.
            error.hint = "the worker's last lines are above; nothing was created or paid for"
            explain(error, here.engine.name)
            raise
        finally:
            for _ in _taken_away(here, deps):
                pass
    yield Notice(text="the handler's warm-up call was made in a worker on this machine, and it came up")


def _raised(here: Spec, artifact: Artifact, deps: Deps) -> Iterator[Event]:
    target, hub = deps.targets["local"], deps.hub(here.model.model_id)
    plan = diff(here, artifact, target.observe(here.ref), target.held(here, hub))
    wanted = tuple(action for action in plan.actions if not isinstance(action, ProbeServer))
    perform = target.raising(here, artifact, hub)
    yield from apply(replace(plan, actions=wanted), perform, NoJournal(), deps.clock)


def _taken_away(here: Spec, deps: Deps) -> Iterator[Event]:
    target = deps.targets["local"]
    plan = teardown(target.observe(here.ref))
    yield from apply(plan, target.ending(here.ref), NoJournal(), deps.clock)


def _here(spec: Spec, artifact: Artifact, deps: Deps) -> Spec:
    """The same spec on this machine, under a name that no recipe's deployment has."""
    device, memory = device_of(deps.machine())
    name = f"check-{short(digest([spec.name, artifact.digest]))}"
    place = LocalPlace(
        runtime=RUNTIME,
        host=LOCAL_HOST,
        port=0,  # the server takes one that is free: two rehearsals at once that each choose one take the same
        device=device,
        device_memory=memory,
        startup_timeout=STARTUP,
        environment=(),
    )
    return replace(spec, name=name, place=place)
