"""A model folder served by our own server in a process of its own: for the tests of the server."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.djl_engine import engine_dir

TIMEOUT = 120.0
"""Seconds; an upper bound, for a busy machine."""


def worker_python() -> str:
    """An interpreter with numpy, which DJL's engine imports; torch is not needed."""
    return os.environ.get("LMI_TEST_WORKER_PYTHON", sys.executable)


def write_model(
    folder: Path, handler: str, properties: str = "engine=Python\nminWorkers=1\nmaxWorkers=1\n"
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(handler, encoding="utf-8")
    (folder / "serving.properties").write_text(properties, encoding="latin-1")
    return folder


@dataclass
class RunningServer:
    """A running server."""

    process: subprocess.Popen[bytes]
    run_dir: Path
    log: Path
    connections: list[http.client.HTTPConnection] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.send_request({"do": "status"})["port"])

    @property
    def text(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def send_request(self, response: Mapping[str, object]) -> dict[str, Any]:
        """One line to the control socket, one line back."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(TIMEOUT)
            line.connect(str(self.run_dir / "control.sock"))
            line.sendall(json.dumps(response).encode() + b"\n")
            reply = line.makefile("rb").readline()
        result: dict[str, Any] = json.loads(reply)
        return result

    def connect(self, port: int = 0) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=TIMEOUT)
        self.connections.append(connection)
        return connection

    def post(self, body: object, path: str = "/invocations") -> tuple[int, bytes]:
        """Status and body of one request on a connection of its own."""
        connection = self.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()

    def get(self, path: str) -> tuple[int, bytes]:
        connection = self.connect()
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()

    def wait(self) -> int:
        return self.process.wait(TIMEOUT)

    def wait_for(self, phase: str) -> None:
        """Waits until the server reports that phase, or has ended."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.send_request({"do": "status"})["phase"] == phase:
                    return
            except (OSError, ValueError):
                pass
            time.sleep(0.02)
        raise AssertionError(f"the server never was {phase}:\n{self.text}")

    def wait_in_flight(self, count: int) -> None:
        """Waits until so many inference requests have reached the server and are unanswered."""
        deadline = time.monotonic() + TIMEOUT
        while self.send_request({"do": "status"})["requests"]["in_flight"] < count:
            assert time.monotonic() < deadline, self.text
            time.sleep(0.01)

    def failure(self) -> dict[str, Any]:
        response: dict[str, Any] = json.loads((self.run_dir / "failure.json").read_text())
        return response


@contextmanager
def launched(
    folder: Path, *arguments: str, environ: Mapping[str, str] | None = None, python: str = ""
) -> Iterator[RunningServer]:
    """The server's process, ended and cleaned up after the test."""
    run_dir = Path(tempfile.mkdtemp(prefix="lmi-t-", dir="/tmp"))
    log = run_dir / "server.log"
    command: Sequence[str] = [
        *(sys.executable, "-m", "lmi_deploy.server", str(folder), "--engine-dir", str(engine_dir())),
        *("--python", python or worker_python(), "--run-dir", str(run_dir), "--model-name", "m", *arguments),
    ]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, env={**os.environ, **(environ or {})})
    served = RunningServer(process, run_dir, log)
    try:
        yield served
    finally:
        for connection in served.connections:
            connection.close()
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(run_dir, ignore_errors=True)


@contextmanager
def serving(
    folder: Path, *arguments: str, environ: Mapping[str, str] | None = None
) -> Iterator[RunningServer]:
    """As `launched`, once it is ready."""
    with launched(folder, *arguments, environ=environ) as served:
        served.wait_for("ready")
        yield served
