"""A server program known only by its port; for replays against servers without our control socket."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.running_server import TIMEOUT

PAUSE = 0.05
GRACE = 10.0


@dataclass
class PortListener:
    """The part that a replay needs."""

    process: subprocess.Popen[bytes]
    run_dir: Path
    port: int
    log: Path

    def wait_for(self, phase: str) -> None:
        """Waits until it listens, which it does when its models are loaded; AssertionError if it ends
        before."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline and self.process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(PAUSE)
        raise AssertionError(f"the server never was {phase}:\n{self.log.read_text(errors='replace')}")


@contextmanager
def listening(
    argv: Sequence[str], *, port: int, run_dir: Path, log: Path, environ: Mapping[str, str]
) -> Iterator[PortListener]:
    """Started with our own environment and `environ`; killed if it does not end."""
    with log.open("wb") as sink:
        process = subprocess.Popen(argv, stdout=sink, stderr=sink, env={**os.environ, **environ})
    try:
        yield PortListener(process, run_dir, port, log)
    finally:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
