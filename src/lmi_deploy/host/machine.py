"""This machine: memory, cores, accelerators, free ports."""

from __future__ import annotations

import atexit
import errno
import math
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.errors import LmiError
from lmi_deploy.host.file_lock import file_lock

_LAST_PORT = 65535


def machine(environ: Mapping[str, str], *, root: Path = Path("/")) -> Machine:
    """The resources that a deployment here may use: the limits of our control group apply, not only the hardware."""
    groups = _control_groups(root)
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = [float(usable or 1)]
    for group in groups:
        limit = _text(group / "memory.max")
        if limit.isdigit() and int(limit):
            limits.append(int(limit))
        quota, _, period = _text(group / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(quota):
            cores.append(int(quota) / int(period))
    devices = accelerators(environ)
    return Machine(
        memory=min(limits),
        cores=max(1, math.ceil(min(cores))),
        accelerators=tuple((device.name, device.memory) for device in devices),
        compute_capability=min((device.capability for device in devices if device.capability), default=None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """`capability` is NVIDIA's compute capability; None where an old driver does not say it."""

    name: str
    memory: int
    capability: float | None = None


def accelerators(environ: Mapping[str, str], *, limit: float = 10.0) -> tuple[Accelerator, ...]:
    """NVIDIA devices; none if nvidia-smi is absent, fails or hangs."""
    tool = shutil.which("nvidia-smi", path=environ.get("PATH"))
    for fields in ("name,memory.total,compute_cap", "name,memory.total") if tool else ():
        try:
            observed = subprocess.run(
                [tool or "", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                capture_output=True,
                text=True,
                timeout=limit,
                env=dict(environ),
                check=True,
            )
        except subprocess.CalledProcessError:
            continue  # drivers before 470 do not know compute_cap
        except (OSError, subprocess.SubprocessError):
            return ()
        return tuple(_accelerator(line) for line in observed.stdout.splitlines() if line.strip())
    return ()


def _accelerator(line: str) -> Accelerator:
    name, memory, capability = [*(part.strip() for part in line.split(",")), ""][:3]
    # A device with unified memory reports [N/A].
    return Accelerator(
        name=name,
        memory=int(memory) * MIB if memory.isdigit() else 0,
        capability=float(capability) if re.fullmatch(r"\d+\.\d+", capability) else None,
    )


class PortReservations:
    """Ports that this process has chosen. Each is kept from other programs until its server is started, and from other
    processes of lmi until this one ends: a server takes a moment to bind it.
    """

    def __init__(self, host: str, *, start: int = 8080) -> None:
        self._host, self._start = host, start
        self._sockets: dict[str, socket.socket] = {}
        self._locks = ExitStack()
        atexit.register(self._locks.close)

    def reserve(self, name: str, used: frozenset[int] = frozenset()) -> int:
        """The first free port from `start` upward that is not in `used`; the same one for a name that has one."""
        if (own := self._sockets.get(name)) and (port := int(own.getsockname()[1])) not in used:
            return port
        self.release(name)
        for port in range(self._start, _LAST_PORT + 1):
            if port in used or (found := _listening(self._host, port)) is None:
                continue
            try:
                self._locks.enter_context(file_lock(_lock_of(port), wait=False))
            except BlockingIOError:
                found.close()
                continue
            except (OSError, LmiError):
                pass  # another user's folder, or a full disk: then other processes of lmi see only the socket
            self._sockets[name] = found
            return port
        raise LmiError(
            f"{self._host}: no port from {self._start} to {_LAST_PORT} is free",
            hint="stop a server, or choose another --port",
        )

    def release(self, name: str) -> None:
        """Before the server binds it."""
        if own := self._sockets.pop(name, None):
            own.close()


def _lock_of(port: int) -> Path:
    return Path(tempfile.gettempdir(), f"lmi-ports-{os.getuid()}", f"{port}.lock")


def _control_groups(root: Path) -> tuple[Path, ...]:
    """Our own control group and those around it: each may set a limit."""
    top = root / "sys/fs/cgroup"
    own = next(
        (line[3:] for line in _text(root / "proc/self/cgroup").splitlines() if line.startswith("0::")), "/"
    )
    path = top / own.lstrip("/")
    return (path, *(parent for parent in path.parents if parent.is_relative_to(top)))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _listening(host: str, port: int) -> socket.socket | None:
    """A socket that no other program can share, as it listens; None if the port is taken."""
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    # As the servers do: an address whose last connections were only just closed counts as free.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(0)
    except OSError as exc:
        found.close()
        if exc.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise LmiError(
            f"{host}: cannot listen there: {exc.strerror}", hint="use an address of this machine"
        ) from exc
    return found
