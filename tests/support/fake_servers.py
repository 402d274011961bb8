"""The port ModelServer in memory: one state machine per server, real sockets on 127.0.0.1, responses without
a model."""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from lmi_deploy.domain.inference_http import ADAPTER_HEADER
from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.ports.processes import Report

FakeResponse = tuple[int, str, bytes]
End = Literal["ready", "failed", "dies", "hangs"]


def chat(body: dict[str, Any]) -> FakeResponse:
    """OpenAI's format, whole or as lines, as our handler returns it: always the same two words."""
    if not body.get("stream"):
        choice = {"message": {"role": "assistant", "content": "OK then"}, "finish_reason": "stop"}
        return (
            200,
            "application/json",
            json.dumps({"choices": [choice], "usage": {"completion_tokens": 2}}).encode(),
        )
    lines: list[dict[str, Any]] = [
        {"choices": [{"delta": {"content": "OK"}}]},
        {"choices": [{"delta": {"content": " then"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"completion_tokens": 2}},
    ]
    return 200, "application/jsonlines", b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def silent(body: dict[str, Any]) -> FakeResponse:
    """A loaded model that answers with an error."""
    return 424, "application/json", b'{"code": 424, "message": "prediction failure"}'


@dataclass(frozen=True)
class Behaviour:
    """The behaviour of a server: after `polls` status requests it reaches its `end`; when ready, it
    `answer`s. The request's body has the adapter of its header as `adapter`."""

    polls: int = 2
    end: End = "ready"
    why: str = "the worker ended\nTraceback (most recent call last):\nRuntimeError: no such model"
    answer: Callable[[dict[str, Any]], FakeResponse] = chat


@dataclass
class _ServerProcess:
    launch: Launch
    behaviour: Behaviour
    pid: int
    listener: _Listener | None
    phase: Literal["starting", "loading", "ready", "failed", "draining", "gone"] = "loading"
    polls: int = 0
    served: int = 0
    why: str = ""


class FakeModelServers:
    """Every server of one machine. They outlive their starter, as processes do; `close` ends them all."""

    def __init__(self) -> None:
        self.next: deque[Behaviour] = deque()
        """The behaviour of the next servers; the default one while it is empty."""
        self.started: list[Launch] = []
        self.stopped: list[tuple[str, float]] = []
        """Every stop, with its grace."""
        self.foreground_ends_with = 0
        self.foreground_lines: tuple[str, ...] = ("a line of the server's",)
        self._processes: dict[Path, _ServerProcess] = {}
        self._reserved: dict[int, socket.socket] = {}

    def start(self, launch: Launch) -> ObservedServer:
        launch.home.mkdir(parents=True, exist_ok=True)
        self.started.append(launch)
        behaviour = self.next.popleft() if self.next else Behaviour()
        if keep := self._reserved.pop(launch.port, None):
            keep.close()
        listener = _bound(launch.host, launch.port)
        run = _ServerProcess(
            launch=launch, behaviour=behaviour, pid=40_000 + len(self.started), listener=listener
        )
        self._processes[launch.home] = run
        if listener is None:
            run.phase, run.why = "failed", f"{launch.host}:{launch.port}: Address already in use"
        self.log(launch.home).write_text(f"started {launch.home.name}\n{behaviour.why}\n")
        return self._observed(launch.home)

    def status(self, home: Path) -> ObservedServer:
        run = self._processes.get(home)
        if run is not None:
            self._advance(run)
        return self._observed(home)

    def take_over(self, home: Path, previous: Path, *, host: str, port: int) -> None:
        own, other = self._processes[home], self._processes.get(previous)
        if own.phase != "ready" or other is None or other.listener is None or other.listener.port != port:
            raise DeployFailed(f"{home.name} cannot take over {host}:{port}", hint="run `lmi up` again")
        assert own.listener is not None
        own.listener.close()
        own.listener, other.listener = other.listener, None
        own.listener.holder = own
        other.phase, other.polls = "draining", 0

    def stop(self, home: Path, *, grace: float) -> None:
        self.stopped.append((home.name, grace))
        run = self._processes.get(home)
        if run is not None:
            self._end(run, "gone")

    def failure(self, home: Path) -> str:
        run = self._processes.get(home)
        return run.why if run else ""

    def foreground(self, launch: Launch, *, report: Report | None = None) -> int:
        self.started.append(launch)
        if report is not None:
            for line in self.foreground_lines:
                report(line)
        return self.foreground_ends_with

    def log(self, home: Path) -> Path:
        return home / "server.log"

    def kill(self, home: Path) -> None:
        """As kill -9, or a restart of the machine."""
        self._end(self._processes[home], "gone")

    def freeze(self, home: Path) -> None:
        """As kill -STOP: the process exists, and does not respond."""
        self._processes[home].phase = "starting"

    def alive(self) -> list[str]:
        """The servers that run, by name."""
        return sorted(
            home.name for home, run in self._processes.items() if run.phase not in ("gone", "failed")
        )

    def free_port(self, used: frozenset[int] = frozenset()) -> int:
        """A port that no other test gets while this object lives; the same one until a server has it."""
        if free := next((port for port in self._reserved if port not in used), None):
            return free
        keep = socket.socket()
        keep.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keep.bind(("127.0.0.1", 0))
        port = int(keep.getsockname()[1])
        self._reserved[port] = keep
        return port

    def close(self) -> None:
        for run in self._processes.values():
            self._end(run, "gone")
        for keep in self._reserved.values():
            keep.close()

    def _advance(self, run: _ServerProcess) -> None:
        run.polls += 1
        if run.phase == "draining" and run.polls > 1:
            self._end(run, "gone")
        if run.phase != "loading" or run.polls <= run.behaviour.polls:
            return
        match run.behaviour.end:
            case "ready":
                assert run.listener is not None
                run.listener.open(run)
                run.phase = "ready"
            case "failed":
                self._end(run, "failed")
                run.why = run.behaviour.why
            case "dies":
                self._end(run, "gone")
            case "hangs":
                pass

    def _end(self, run: _ServerProcess, phase: Literal["failed", "gone"]) -> None:
        run.phase, run.why = phase, ""
        if run.listener is not None:
            run.listener.close()
            run.listener = None

    def _observed(self, home: Path) -> ObservedServer:
        run = self._processes.get(home)
        if run is None or run.phase == "gone":
            return ObservedServer(server=home.name, phase="gone", pid=None, port=None)
        pid = None if run.phase == "failed" else run.pid
        port = run.listener.port if run.listener else None
        return ObservedServer(server=home.name, phase=run.phase, pid=pid, port=port, served=run.served)


@dataclass
class _Listener:
    """A bound socket, which accepts once it is open; its `holder` answers."""

    bound: socket.socket
    port: int
    holder: _ServerProcess | None = None
    server: HTTPServer | None = field(default=None)

    def open(self, owner: _ServerProcess) -> None:
        listener = self
        self.holder = owner

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                run = listener.holder
                assert run is not None
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                adapter = self.headers.get(ADAPTER_HEADER)
                request = _json(raw) | ({"adapter": adapter} if adapter else {})
                status, kind, body = run.behaviour.answer(request)
                run.served += 1
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(ConnectionError):  # the client may have disconnected
                    self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler, bind_and_activate=False)
        server.socket.close()
        server.socket = self.bound
        server.server_activate()
        self.server = server
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
        self.bound.close()


def _json(raw: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        value = json.loads(raw)
        return value if isinstance(value, dict) else {}
    return {}


def _bound(host: str, port: int) -> _Listener | None:
    """None where another process has the port."""
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind((host, port))
    except OSError:
        own.close()
        return None
    return _Listener(bound=own, port=int(own.getsockname()[1]))
