"""A program whose output is followed while it runs, and that never outlives its follower."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from lmi_deploy.host.processes import identity
from lmi_deploy.ports.processes import Process

_TIMEOUT = 5.0


class ProcessOutput:
    """A context manager: at its end the program and all its child processes are killed."""

    def __init__(self, argv: Sequence[str], *, environ: Mapping[str, str], cwd: Path) -> None:
        self._child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict(environ),
            # Ctrl-C in a terminal reaches only this process: it stops the program, and knows that it has exited.
            start_new_session=True,
        )
        self.process = Process(pid=self._child.pid, started=identity(self._child.pid) or "")
        """To find it again, should we be killed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._signal_all(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_TIMEOUT)
        self._signal_all(signal.SIGKILL)
        self._child.wait()
        if self._child.stdout:
            self._child.stdout.close()

    def lines(self, *, tick: float) -> Iterator[str | None]:
        """Its output, line by line; None after each `tick` seconds without a line."""
        rest = b""
        assert self._child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(tick):
                    yield None
                elif chunk := os.read(self._child.stdout.fileno(), 65536):
                    *full, rest = (rest + chunk).split(b"\n")
                    yield from (line.decode(errors="replace").rstrip() for line in full)
                else:
                    break
        if rest:
            yield rest.decode(errors="replace").rstrip()

    def exit_code(self) -> int:
        return self._child.wait()

    def written(self) -> int | None:
        """Bytes it has written so far, to files and pipes; None if the system does not report it."""
        import psutil

        try:
            counters = psutil.Process(self._child.pid).io_counters()
        except (psutil.Error, AttributeError):
            return None
        return int(counters.write_chars)

    def _signal_all(self, number: signal.Signals) -> None:
        # macOS returns EPERM for a group of zombies.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)
