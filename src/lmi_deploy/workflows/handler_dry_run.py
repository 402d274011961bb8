"""A handler's warm-up call, made in a worker on this machine before anything costs money.

The same artifact that would be deployed is started here by target local's own actions, run until it has loaded the
model, and removed again. The worker's messages about a handler are the same as on SageMaker.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Final

from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.naming import digest, short
from lmi_deploy.domain.observed import LocalInventory
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
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_plan import DeploymentPlan
from lmi_deploy.workflows.error_diagnosis import explain

RUNTIME: Final = "embedded"
STARTUP: Final = 1800
"""Seconds: a processor loads a model more slowly than its intended device."""


class NoJournal:
    """A rehearsal leaves no history."""

    def begin(self, action: Action) -> None: ...

    def complete(self, action: Action, outcome: str) -> None: ...

    def set_pending(self, generation: Generation) -> None: ...

    def commit(self, generation: Generation) -> None: ...


def missing(spec: Spec, deps: Dependencies) -> str:
    """Why a dry run would cost more than its time, in words; empty if everything for it is on this machine."""
    if spec.engine.name not in RUNS[RUNTIME]:
        return f"engine {spec.engine.name} does not run on this machine"
    inventory = deps.targets["local"].inventory(spec, deps.hub(spec.model.model_id))
    if not isinstance(inventory, LocalInventory):
        return "target local is not on this machine"
    lacking = {
        "DJL's Python engine": not inventory.engine,
        "the serving environment": not inventory.environment,
        "the weights": inventory.missing_weights > 0,
    }
    words = [what for what, lacks in lacking.items() if lacks]
    return f"not on this machine yet: {', '.join(words)}" if words else ""


def is_due(deployment: DeploymentPlan, deps: Dependencies, *, requested: bool) -> bool:
    """Whether to try the handler here: if requested, or if custom code is new and the try builds nothing."""
    return requested or (_is_promised(deployment) and not missing(deployment.spec, deps))


def skipped_reason(deployment: DeploymentPlan, deps: Dependencies, *, requested: bool) -> str:
    """The message if the warm-up call that `plan` announces is not made; empty if it is, or was never planned."""
    why = missing(deployment.spec, deps) if _is_promised(deployment) and not requested else ""
    if not why:
        return ""
    return f"the handler's warm-up call is not made on this machine first ({why}); --check-handler makes it"


def _is_promised(deployment: DeploymentPlan) -> bool:
    own = bool(deployment.spec.inputs.model_py)
    return isinstance(deployment.spec.place, SageMakerPlace) and deployment.has_action(CreateModel) and own


def rehearse(spec: Spec, artifact: Artifact, deps: Dependencies) -> Generator[Event, None, None]:
    """DeployFailed, with the worker's own message, if the handler does not start; everything is removed."""
    if spec.engine.name not in RUNS[RUNTIME]:
        raise Unresolvable(
            f"--check-handler: engine {spec.engine.name} does not run on this machine",
            hint="leave it out: model.py is checked by its syntax tree all the same",
        )
    yield Notice(text="trying the handler in a worker on this machine first; nothing of that stays")
    local = _local_spec(spec, artifact, deps)
    with deps.lock(local.ref).hold(local.name):
        # Left-overs of a dry run that was killed.
        yield from _removed(local, deps)
        try:
            yield from _started_server(local, artifact, deps)
        except LmiError as error:
            error.message = f"tried on this machine before anything is created: {error.message}"
            # Its log is deleted with it: the important lines are in the error.
            error.hint = "the worker's last lines are above; nothing was created or paid for"
            explain(error, local.engine.name)
            raise
        finally:
            for _ in _removed(local, deps):
                pass
    yield Notice(text="the handler's warm-up call was made in a worker on this machine, and it came up")


def _started_server(local: Spec, artifact: Artifact, deps: Dependencies) -> Iterator[Event]:
    target, hub = deps.targets["local"], deps.hub(local.model.model_id)
    plan = diff(local, artifact, target.observe(local.ref), target.inventory(local, hub))
    desired = tuple(action for action in plan.actions if not isinstance(action, ProbeServer))
    perform = target.deploy_actions(local, artifact, hub)
    yield from apply(replace(plan, actions=desired), perform, NoJournal(), deps.clock)


def _removed(local: Spec, deps: Dependencies) -> Iterator[Event]:
    target = deps.targets["local"]
    plan = teardown(target.observe(local.ref))
    yield from apply(plan, target.teardown_actions(local.ref), NoJournal(), deps.clock)


def _local_spec(spec: Spec, artifact: Artifact, deps: Dependencies) -> Spec:
    """The same spec on this machine, under a name that no recipe's deployment has."""
    device, memory = device_of(deps.machine())
    name = f"check-{short(digest([spec.name, artifact.digest]))}"
    place = LocalPlace(
        runtime=RUNTIME,
        host=LOCAL_HOST,
        port=0,  # the server chooses a free one: two simultaneous dry runs may choose the same
        device=device,
        device_memory=memory,
        startup_timeout=STARTUP,
        environment=(),
    )
    return replace(spec, name=name, place=place)
