"""A DJLServing that is installed here, started as it was when it was recorded; for replays against the real one."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.served import PATIENCE, worker_python

PAUSE = 0.05


@dataclass
class Installed:
    """A running server, as far as a replay asks."""

    process: subprocess.Popen[bytes]
    run_dir: Path
    port: int
    log: Path

    def wait_for(self, phase: str) -> None:
        """Until it listens, which it does when its models are loaded; AssertionError where it ends before."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(PAUSE)
        raise AssertionError(f"the server never was {phase}:\n{self.log.read_text(errors='replace')}")


@contextmanager
def installed(folder: Path, *arguments: str, environ: Mapping[str, str]) -> Iterator[Installed]:
    """Takes what our own server is given."""
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    config = Path(given["--config"])
    run_dir = config.parent / "tmp"
    run_dir.mkdir()
    log = config.parent / "server.log"
    own = {
        "JAVA_OPTS": f"{shlex.quote(f'-Djava.io.tmpdir={run_dir}')} {environ.get('JAVA_OPTS', '')}".strip(),
        "PYTHON_EXECUTABLE": worker_python(),
        "DJL_CACHE_DIR": str(config.parent / "cache"),
        "MODEL_SERVER_HOME": os.environ["DJL_SERVING_HOME"],
    }
    program = Path(os.environ["DJL_SERVING_HOME"], "bin", "serving")
    # Where the file says what to load, it is obeyed; the recorded ones leave it to the command line.
    argv = [str(program), "-f", str(config), "-s", str(folder)]
    with log.open("wb") as sink:
        process = subprocess.Popen(argv, stdout=sink, stderr=sink, env={**os.environ, **environ, **own})
    try:
        yield Installed(process, run_dir, int(given["--port"]), log)
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def unpacked(folder: Path) -> Path:
    """The Python engine that it unpacked for itself."""
    return next((folder / "cache" / "python").iterdir())
