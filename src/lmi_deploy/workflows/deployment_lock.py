"""The deployment's lock around a change; if the lock is lost, the error reports what exists and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from lmi_deploy.domain.observed_state import Observed
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import Locked, LockLost
from lmi_deploy.ports.journal import Journal
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.interruption import remaining

_EVERY: Final = 5.0
"""Seconds between two tries to take a lock that another lmi has."""
_SAID_EVERY: Final = 60.0
"""CI systems end a job that prints nothing for ten minutes (CircleCI)."""


@contextmanager
def locked(ref: DeploymentRef, deps: Dependencies) -> Iterator[None]:
    """Locked if another process holds the lock, and still does after `--lock-timeout`; LockLost, with the costs, if
    another process took it in the meantime.
    """
    try:
        with ExitStack() as held:
            _take(held, ref, deps)
            yield
    except LockLost as error:
        status = remaining(ref, deps)
        error.message += f"; {status}" if status else ""
        raise


def _take(held: ExitStack, ref: DeploymentRef, deps: Dependencies) -> None:
    wait, lock = deps.lock_wait, deps.lock(ref)
    said_at = deps.clock.monotonic()
    until = said_at + wait.seconds
    while True:
        try:
            held.enter_context(lock.hold(ref.name))
        except Locked as error:
            left = until - deps.clock.monotonic()
            if left <= 0:
                waited = f", and still after {wait.seconds} s" if wait.seconds else ""
                error.message += waited
                error.hint += "" if wait.seconds else "; --lock-timeout 10m waits for it"
                raise
            if deps.clock.monotonic() >= said_at:
                wait.notify(f"waiting for at most {left:.0f} s: {error.message}")
                said_at += _SAID_EVERY
            wait.waited = True
            deps.clock.sleep(min(_EVERY, left))
        else:
            return


def journal_of(observed: Observed, deps: Dependencies) -> Journal:
    """The writer of its record, under the lock. A record that was lost is written first, as it was rebuilt."""
    journal = deps.journal(observed.ref)
    if observed.record_rebuilt and observed.record:
        journal.restore(observed.record)
    return journal
