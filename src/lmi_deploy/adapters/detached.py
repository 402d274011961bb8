"""The port Processes on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.adapters import processes
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.processes import Process, Said


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    clock: Clock

    def start(self, argv: Sequence[str], *, log: Path, cwd: Path, environment: Mapping[str, str]) -> Process:
        return processes.start_detached(argv, log=log, cwd=cwd, environ=environment)

    def ask(self, argv: Sequence[str], *, environment: Mapping[str, str], timeout: float) -> Said:
        try:
            done = subprocess.run(
                list(argv),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Said(code=124, out="", err=f"{argv[0]} did not answer within {timeout:.0f} s")
        except OSError as reason:
            return Said(code=127, out="", err=f"{argv[0]}: {reason.strerror}")
        return Said(
            code=done.returncode,
            out=done.stdout.decode("utf-8", "replace"),
            err=done.stderr.decode("utf-8", "replace"),
        )

    def foreground(self, argv: Sequence[str], *, environment: Mapping[str, str]) -> int:
        with subprocess.Popen(list(argv), env=dict(environment)) as child:
            while True:
                try:
                    return child.wait()
                except KeyboardInterrupt:
                    # The terminal sent it to the child as well, which drains; a second one ends it at once.
                    continue

    def identify(self, pid: int) -> Process | None:
        started = processes.identity(pid) if pid > 0 else None
        return Process(pid=pid, started=started) if started else None

    def alive(self, process: Process) -> bool:
        return processes.alive(process)

    def end(self, process: Process, *, grace: float) -> None:
        processes.end(process, grace=grace, clock=self.clock)

    def memory(self, process: Process) -> int:
        return processes.rss(process.pid) if processes.alive(process) else 0
