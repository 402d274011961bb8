"""Who holds a lock: enough to tell, anywhere, who it is, and on its own machine, whether it lives."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from lmi_deploy.adapters.processes import alive, identity
from lmi_deploy.ports.processes import Process

UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """`started` tells the process from a later one of its number, `machine` this view of process numbers from
    another: host, boot, and the namespace that a container has of its own."""

    id: str
    command: str
    host: str
    machine: str
    pid: int
    started: str
    since: str
    expires: str

    @property
    def text(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @property
    def words(self) -> str:
        if self.id == UNREADABLE:
            return "a lock that cannot be read"
        return f"{self.command} (pid {self.pid} on {self.host}, since {self.since}, lock {self.id})"

    def until(self, now: datetime, lasts: float) -> Holder:
        """Renewed: it lasts from now."""
        return replace(self, expires=_stamp(now + timedelta(seconds=lasts)))


def myself(command: str, lock_id: str, now: datetime, *, lasts: float) -> Holder:
    pid = os.getpid()
    return Holder(
        id=lock_id,
        command=command,
        host=socket.gethostname(),
        machine=_machine(),
        pid=pid,
        started=identity(pid) or "",
        since=_stamp(now),
        expires=_stamp(now + timedelta(seconds=lasts)),
    )


def read_holder(text: bytes) -> Holder:
    """What `Holder.text` wrote. Anything else is a lock, too, that only `lmi unlock` ends."""
    try:
        found = Holder(**json.loads(text))
        datetime.fromisoformat(found.expires)
    except (ValueError, TypeError):
        return Holder(id=UNREADABLE, command="", host="", machine="", pid=0, started="", since="", expires="")
    return found


def is_gone(holder: Holder, now: datetime) -> str:
    """Why its lock may be taken over, in words; empty where it may not."""
    if holder.id == UNREADABLE:
        return ""
    if holder.machine == _machine() and not alive(Process(pid=holder.pid, started=holder.started)):
        return "its process is gone"
    if now > datetime.fromisoformat(holder.expires):
        return f"it was not renewed since {holder.expires}"
    return ""


def _machine() -> str:
    boot = (identity(os.getpid()) or "").partition("/")[0]
    namespace = Path("/proc/self/ns/pid")
    return f"{socket.gethostname()}/{boot}/{namespace.readlink() if namespace.exists() else ''}"


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
