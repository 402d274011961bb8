"""The port Processes on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.host import processes
from lmi_deploy.host.orphan_watchdog import run_watchdog
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.processes import CommandResult, Process, Release, Report

_LAST_LINES = 5.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    clock: Clock

    def start(self, argv: Sequence[str], *, log: Path, cwd: Path, environment: Mapping[str, str]) -> Process:
        return processes.start_detached(argv, log=log, cwd=cwd, environ=environment)

    def run(
        self, argv: Sequence[str], *, environment: Mapping[str, str], timeout: float, stdin: str = ""
    ) -> CommandResult:
        try:
            done = subprocess.run(
                list(argv),
                env=dict(environment),
                input=stdin.encode(),
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return CommandResult(code=124, out="", err=f"{argv[0]} did not answer within {timeout:.0f} s")
        except OSError as reason:
            return CommandResult(code=127, out="", err=f"{argv[0]}: {reason.strerror}")
        return CommandResult(
            code=done.returncode,
            out=done.stdout.decode("utf-8", "replace"),
            err=done.stderr.decode("utf-8", "replace"),
        )

    def foreground(
        self, argv: Sequence[str], *, environment: Mapping[str, str], report: Report | None = None
    ) -> int:
        out, err = (None, None) if report is None else (subprocess.PIPE, subprocess.STDOUT)
        # In its own process group it receives only the signals that we pass on: from a terminal both would get them,
        # and it would get them twice.
        with (
            subprocess.Popen(
                list(argv), env=dict(environment), process_group=0, stdout=out, stderr=err
            ) as child,
            _passed_on(child.pid),
            _reported(child, report),
        ):
            return child.wait()

    def identify(self, pid: int) -> Process | None:
        started = processes.identity(pid) if pid > 0 else None
        return Process(pid=pid, started=started) if started else None

    def alive(self, process: Process) -> bool:
        return processes.alive(process)

    def end(self, process: Process, *, grace: float) -> None:
        processes.end(process, grace=grace, clock=self.clock)

    def cleanup_on_exit(self, mark: str, *, folders: Sequence[Path]) -> AbstractContextManager[Release]:
        return run_watchdog(mark, folders)

    def memory(self, process: Process) -> int:
        return processes.rss(process.pid) if processes.alive(process) else 0


@contextmanager
def _reported(child: subprocess.Popen[bytes], report: Report | None) -> Iterator[None]:
    """Each line of its output, while it runs and until its streams are closed."""
    if report is None or child.stdout is None:
        yield
        return
    output = child.stdout

    def read() -> None:
        for line in output:
            report(line.decode("utf-8", "replace").rstrip("\r\n"))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    yield
    # A worker that outlives its server keeps the pipe open: the wait for its last lines is limited.
    reader.join(_LAST_LINES)


@contextmanager
def _passed_on(group: int) -> Iterator[None]:
    """SIGINT and SIGTERM are passed to the group and do not stop us: it drains, and a second one stops it at once."""

    def notify(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = {number: signal.signal(number, notify) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
