"""The owner of a lock: enough to identify it anywhere, and to check on its own machine whether it still runs."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from lmi_deploy.host.processes import alive, identity
from lmi_deploy.ports.object_store import StoredObject
from lmi_deploy.ports.processes import Process

UNREADABLE: Final = "unreadable"
_RESOLUTION: Final = 1.0
"""Seconds: HTTP's dates, `Date` and `Last-Modified`, have no fractions."""
_UNREADABLE_LASTS: Final = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOwner:
    """`started` distinguishes the process from a later one with its number, `machine` this view of process numbers
    from another: host, boot, and the namespace of a container. `since` and `renewed` are by the holder's own clock,
    and only for display.
    """

    id: str
    command: str
    host: str
    machine: str
    pid: int
    started: str
    since: str
    renewed: str
    lasts: float
    """Seconds from the last renewal to its end."""

    @property
    def text(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @property
    def words(self) -> str:
        if self.id == UNREADABLE:
            return "an unreadable lock"
        return f"{self.command} (pid {self.pid} on {self.host}, since {self.since}, lock {self.id})"

    def at(self, now: datetime) -> LockOwner:
        """Renewed now: a new text, and so a new ETag."""
        return replace(self, renewed=now.isoformat(timespec="microseconds"))


def current_owner(command: str, lock_id: str, now: datetime, *, lasts: float) -> LockOwner:
    pid = os.getpid()
    return LockOwner(
        id=lock_id,
        command=command,
        host=socket.gethostname(),
        machine=_machine(),
        pid=pid,
        started=identity(pid) or "",
        since=now.isoformat(timespec="seconds"),
        renewed=now.isoformat(timespec="microseconds"),
        lasts=lasts,
    )


def read_lock_owner(text: bytes) -> LockOwner:
    """Parse the output of `LockOwner.text`, of this lmi or a later one. Any other content is also a lock, which only
    `unlock` removes.
    """
    try:
        found = json.loads(text)
        owner = LockOwner(**{one.name: found[one.name] for one in fields(LockOwner)})
        if not (isinstance(owner.lasts, (int, float)) and owner.lasts > 0):
            raise ValueError("lasts")
    except (ValueError, TypeError, KeyError, RecursionError):
        return LockOwner(
            id=UNREADABLE,
            command="",
            host="",
            machine="",
            pid=0,
            started="",
            since="",
            renewed="",
            lasts=_UNREADABLE_LASTS,
        )
    return owner


def age_of(lock: StoredObject, now: datetime) -> float:
    """Seconds since the last renewal by S3's own clock; by `now` if S3's response had no date.

    The clocks of two machines may differ by minutes: neither can tell when a lock has expired.
    """
    requested = datetime.fromisoformat(lock.as_of) if lock.as_of else now
    return (requested - datetime.fromisoformat(lock.modified)).total_seconds()


def abandoned_reason(owner: LockOwner, age: float) -> str:
    """Why its lock may be taken over, in words; empty if it may not."""
    if owner.id == UNREADABLE:
        return ""
    if _is_dead(owner):
        return "its process has ended"
    if age > owner.lasts + _RESOLUTION:
        return f"it was not renewed for {age:.0f} s"
    return ""


def is_renewed(owner: LockOwner, age: float) -> bool:
    """Whether its holder is active: it renews several times within the lock's duration."""
    return not _is_dead(owner) and age < owner.lasts / 2


def _is_dead(owner: LockOwner) -> bool:
    return owner.machine == _machine() and not alive(Process(pid=owner.pid, started=owner.started))


def _machine() -> str:
    boot = (identity(os.getpid()) or "").partition("/")[0]
    namespace = Path("/proc/self/ns/pid")
    return f"{socket.gethostname()}/{boot}/{namespace.readlink() if namespace.exists() else ''}"
