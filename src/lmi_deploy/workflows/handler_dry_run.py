"""A handler's warm-up call, made in a worker on this machine before anything costs money.

The same artifact that would be deployed is started here by target local's own actions, run until it has loaded the
model, and removed again. The worker's messages about a handler are the same as on SageMaker.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.local_actions import ProbeServer
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.record import AN_UP, Generation, Record, ServingChange
from lmi_deploy.domain.sagemaker.actions import CreateModel
from lmi_deploy.errors import LmiError
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_plan import DeploymentPlan
from lmi_deploy.workflows.error_diagnosis import explain


class NoJournal:
    """A rehearsal leaves no history."""

    def begin(self, action: Action) -> None: ...

    def complete(self, action: Action, outcome: str) -> None: ...

    def set_pending(self, generation: Generation) -> None: ...

    def commit(self, generation: Generation, change: ServingChange = AN_UP) -> None: ...

    def restore(self, record: Record) -> None: ...

    def accept(self, server: str) -> None: ...


def is_due(deployment: DeploymentPlan, deps: Dependencies, *, requested: bool) -> bool:
    """Whether to try the handler here: if requested, or if custom code is new and the try builds nothing."""
    return requested or (_is_promised(deployment) and not _lacking(deployment.spec, deps))


def skipped_reason(deployment: DeploymentPlan, deps: Dependencies, *, requested: bool) -> str:
    """The message if the warm-up call that `plan` announces is not made; empty if it is, or was never planned."""
    why = _lacking(deployment.spec, deps) if _is_promised(deployment) and not requested else ""
    if not why:
        return ""
    return f"lmi skips the handler's warm-up call on this machine ({why}); add --check-handler to make it"


def _is_promised(deployment: DeploymentPlan) -> bool:
    own = bool(deployment.spec.inputs.model_py)
    return deployment.target.billed and deployment.plan.has_action(CreateModel) and own


def _lacking(spec: Spec, deps: Dependencies) -> str:
    return deps.trial.lacking(spec, deps.hub)


def rehearse(spec: Spec, artifact: Artifact, deps: Dependencies) -> Generator[Event, None, None]:
    """DeployFailed, with the worker's own message, if the handler does not start; everything is removed."""
    local = deps.trial.trial_spec(spec, artifact, deps.machine())
    yield Notice(text="testing the handler in a temporary worker on this machine")
    with deps.lock(local.ref).hold(local.name):
        # Left-overs of a dry run that was killed.
        yield from _removed(local, deps)
        try:
            yield from _started_server(local, artifact, deps)
        except LmiError as error:
            error.message = (
                f"the handler failed on this machine, before anything was created: {error.message}"
            )
            # Its log is deleted with it: the important lines are in the error.
            error.hint = "read the worker's last lines above. Nothing was created or paid for"
            explain(error, local.engine.name)
            raise
        finally:
            for _ in _removed(local, deps):
                pass
    yield Notice(text="the handler's warm-up call succeeded in a worker on this machine")


def _started_server(local: Spec, artifact: Artifact, deps: Dependencies) -> Iterator[Event]:
    target = deps.trial
    plan = target.plan_deployment(
        local, artifact, target.observe(local.ref), target.inventory(local, deps.hub)
    )
    desired = tuple(action for action in plan.actions if not isinstance(action, ProbeServer))
    perform = target.deploy_actions(local, artifact, deps.hub)
    yield from apply(replace(plan, actions=desired), perform, NoJournal(), deps.clock)


def _removed(local: Spec, deps: Dependencies) -> Iterator[Event]:
    target = deps.trial
    plan = target.plan_teardown(target.observe(local.ref))
    yield from apply(plan, target.teardown_actions(local.ref), NoJournal(), deps.clock)
