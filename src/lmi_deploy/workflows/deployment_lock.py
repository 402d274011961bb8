"""The deployment's lock around a change; if the lock is lost, the error reports what exists and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import LmiError, LockLost
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.running_costs import remaining_cost


@contextmanager
def locked(ref: DeploymentRef, deps: Dependencies) -> Iterator[None]:
    """Refused if another process holds the lock; LockLost, with the costs, if another process took it in the
    meantime.
    """
    try:
        with deps.lock(ref).hold(ref.name):
            yield
    except LockLost as error:
        try:
            status = remaining_cost(deps.targets[ref.target].observe(ref), deps)
        except LmiError:
            status = "what is there could not be looked at"
        error.message += f"; {status}" if status else ""
        raise
