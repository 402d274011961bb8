"""`lmi serve DIR --runtime embedded --port N --config FILE`: recordings of DJLServing, replayed against it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.test_recordings import RECORDINGS, complaints
from tests.support.recorded import load
from tests.support.recordings import Replay
from tests.support.served import PATIENCE, worker_python

pytestmark = pytest.mark.worker

LMI = "import sys; from lmi_deploy.cli import main; sys.exit(main())"


@dataclass
class Command:
    """The command, as far as a replay asks."""

    process: subprocess.Popen[bytes]
    run_dir: Path
    port: int
    log: Path

    def wait_for(self, phase: str) -> None:
        """Until it listens; AssertionError where it ends before."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError(f"the server never was {phase}:\n{self.log.read_text()}")


@contextmanager
def commanded(folder: Path, *arguments: str, environ: Mapping[str, str]) -> Iterator[Command]:
    """Takes what the server itself is given."""
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    told = ("--port", given["--port"], "--config", given["--config"], "--python", worker_python())
    log = folder.parent / "lmi.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-c", LMI, "serve", folder, "--runtime", "embedded", *told],
            stdout=sink,
            stderr=sink,
            env={**os.environ, **environ},
        )
    try:
        yield Command(process, folder, int(given["--port"]), log)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    "name",
    [
        "s37_init_returns_output_with_body",
        "s63_engine_bad",
        "s70_management",
        "s71_separate_management_port",
        "s73_empty_store",
        "s77_sigkill",
        "s77_sigterm",
        "s107_query_data_shadows_body",
        "s110_one_of_two_models_fails",
    ],
)
def test_a_recording_is_answered_as_it_was(name: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="lmi-rec-", dir="/tmp"))
    try:
        replay = Replay(load(RECORDINGS / f"{name}.json"), folder, RECORDINGS / "handlers", commanded)
        assert complaints(name, replay.differences()) == []
    finally:
        shutil.rmtree(folder)
