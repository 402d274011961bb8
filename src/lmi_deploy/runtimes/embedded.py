"""Runtime `embedded`: our own front end with DJL's Python engine, a separate program, led over its control socket."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.ports.processes import Process, Processes, Report
from lmi_deploy.runtimes.server_dirs import (
    fresh_run_folder,
    is_private,
    noted_process,
    read_note,
    run_folder,
    write_note,
    write_process,
)

Phase = Literal["starting", "loading", "ready", "failed", "draining"]
_REPLACED = "replaced.json"
_PHASES: dict[str, Phase] = {phase: phase for phase in get_args(Phase)}
_RESPONSE_TIMEOUT = 5.0
_STATUS_TIMEOUT = 2.0
"""Seconds for a status request, which its front end answers even while it is busy."""


class Embedded:
    """A `ModelServer`; all that it needs to find a server again follows from that server's home folder."""

    def __init__(self, processes: Processes, clock: Clock, environment: Mapping[str, str]) -> None:
        """`environment` is that of every server, without secrets."""
        self._processes = processes
        self._clock = clock
        self._environment = environment

    def start(self, launch: Launch) -> ObservedServer:
        launch.home.mkdir(parents=True, exist_ok=True)
        (launch.home / _REPLACED).unlink(missing_ok=True)
        run = fresh_run_folder(launch.home)
        process = self._processes.start(
            command(launch, run),
            log=self.log(launch.home),
            cwd=launch.home,
            environment={**launch.defaults, **self._environment, **launch.environment},
        )
        write_process(launch.home, process)
        return self.status(launch.home)

    def status(self, home: Path) -> ObservedServer:
        status = _send_request(home, {"do": "status"}, timeout=_STATUS_TIMEOUT)
        if status is not None:
            return self._observed(home, status)
        process = self._process(home)
        if process is not None:
            phase: Phase = "draining" if (home / _REPLACED).exists() else "starting"
            return ObservedServer(server=home.name, phase=phase, pid=process.pid, port=None)
        failed = (run_folder(home) / "failure.json").exists()
        return ObservedServer(server=home.name, phase="failed" if failed else "gone", pid=None, port=None)

    def take_over(self, home: Path, previous: Path, *, host: str, port: int) -> None:
        request = {"do": "take_over", "from": str(run_folder(previous) / "control.sock")}
        response = _send_request(home, request, timeout=30.0) or {}
        if response.get("port") != port:
            why = response.get("error") or "the server did not respond"
            raise DeployFailed(
                f"{home.name} cannot take over {host}:{port} from {previous.name}: {why}",
                hint="the previous server still has the address. Run `lmi up` again",
            )
        # At its very end it no longer responds, and would look like one that has only just started.
        write_note(previous / _REPLACED, {"by": home.name})
        # Both accept for a moment; when this returns, the new one responds.
        deadline = self._clock.monotonic() + _RESPONSE_TIMEOUT
        while self.status(previous).phase == "ready" and self._clock.monotonic() < deadline:
            self._clock.sleep(0.02)

    def stop(self, home: Path, *, grace: float) -> None:
        process = self._process(home)
        timeout = min(_RESPONSE_TIMEOUT, grace)
        response = _send_request(home, {"do": "stop"}, timeout=timeout)
        if process is not None:
            # A server that does not respond (it has only just started, or hangs) gets a signal instead.
            deadline = self._clock.monotonic() + (grace if response is not None else 0.0)
            while self._processes.alive(process) and self._clock.monotonic() < deadline:
                self._clock.sleep(0.05)
            self._processes.end(process, grace=timeout)
        shutil.rmtree(run_folder(home), ignore_errors=True)

    def failure(self, home: Path) -> str:
        response = read_note(run_folder(home) / "failure.json")
        lines = [str(response.get("message", "")), *(str(line) for line in response.get("last_lines", ()))]
        return "\n".join(line for line in lines if line)

    def foreground(self, launch: Launch, *, report: Report | None = None) -> int:
        run = fresh_run_folder(launch.home)
        argv = [*command(launch, run), "--foreground"]
        try:
            return self._processes.foreground(
                argv,
                environment={**launch.defaults, **self._environment, **launch.environment},
                report=report,
            )
        finally:
            shutil.rmtree(run, ignore_errors=True)

    def log(self, home: Path) -> Path:
        return home / "server.log"

    def _process(self, home: Path) -> Process | None:
        """The running process of this home: by the note, else by the server's own status (if we were killed before
        the note).
        """
        if (process := noted_process(home)) is not None:
            return process if self._processes.alive(process) else None
        status = _send_request(home, {"do": "status"}, timeout=_RESPONSE_TIMEOUT) or {}
        return self._processes.identify(int(status.get("pid") or 0))

    def _observed(self, home: Path, status: dict[str, Any]) -> ObservedServer:
        requests = status.get("requests") or {}
        process = self._process(home)
        return ObservedServer(
            server=home.name,
            phase=_PHASES.get(str(status.get("phase")), "starting"),
            pid=status.get("pid"),
            port=status.get("port"),
            served=int(requests.get("served", 0)),
            failed=int(requests.get("failed", 0)),
            in_flight=int(requests.get("in_flight", 0)),
            memory=self._processes.memory(process) if process else 0,
            since=str(status.get("started_at") or ""),
            message=str(status.get("message") or ""),
        )


def _send_request(home: Path, request: dict[str, Any], *, timeout: float) -> dict[str, Any] | None:
    """One JSON line to the server's control socket, and the response to it.

    None if no server responds in time, or if another user could have created the socket.
    """
    run = run_folder(home)
    if not is_private(run.parent):
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(timeout)
            link.connect(str(run / "control.sock"))
            link.sendall(json.dumps(request).encode() + b"\n")
            line = b""
            while not line.endswith(b"\n") and (chunk := link.recv(65536)):
                line += chunk
        response = json.loads(line)
    except (OSError, ValueError):
        return None
    return response if isinstance(response, dict) else None


def command(launch: Launch, run: Path) -> list[str]:
    """The server's command line: in the tool's own interpreter, the worker in the environment's."""
    labels = [part for key, value in launch.labels.items() for part in ("--label", f"{key}={value}")]
    return [
        *(sys.executable, "-m", "lmi_deploy.server", str(launch.model_folder)),
        *("--engine-dir", str(launch.engine), "--python", str(launch.python), "--run-dir", str(run)),
        *("--host", launch.host, "--port", str(launch.port), "--model-name", launch.model_name),
        *(("--config", str(launch.settings)) if launch.settings else ()),
        *("--log-format", launch.log_format),
        *("--management", "http" if launch.managed_by_clients else "control"),
        *labels,
    ]
