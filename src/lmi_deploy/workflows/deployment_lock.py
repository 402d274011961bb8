"""The deployment's lock around a change; if the lock is lost, the error reports what exists and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lmi_deploy.domain.observed_state import Observed
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import LockLost
from lmi_deploy.ports.journal import Journal
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.interruption import remaining


@contextmanager
def locked(ref: DeploymentRef, deps: Dependencies) -> Iterator[None]:
    """Refused if another process holds the lock; LockLost, with the costs, if another process took it in the
    meantime.
    """
    try:
        with deps.lock(ref).hold(ref.name):
            yield
    except LockLost as error:
        status = remaining(ref, deps)
        error.message += f"; {status}" if status else ""
        raise


def journal_of(observed: Observed, deps: Dependencies) -> Journal:
    """The writer of its record, under the lock. A record that was lost is written first, as it was rebuilt."""
    journal = deps.journal(observed.ref)
    if observed.record_rebuilt and observed.record:
        journal.restore(observed.record)
    return journal
