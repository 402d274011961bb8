"""What a command says when it ends early: what still exists, and what it costs."""

from __future__ import annotations

from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import Interrupted, LmiError
from lmi_deploy.workflows.dependencies import Dependencies


def interrupted(ref: DeploymentRef, deps: Dependencies, *, hint: str) -> Interrupted:
    """The error with what still exists, and what it costs."""
    status = remaining(ref, deps)
    return Interrupted("interrupted" + (f": {status}" if status else ""), hint=hint)


def remaining(ref: DeploymentRef, deps: Dependencies) -> str:
    """What still exists, and its cost, in words; empty if nothing costs."""
    target = deps.targets[ref.target]
    try:
        return target.remaining_cost(target.observe(ref))
    except LmiError:
        return "the deployment could not be read"
