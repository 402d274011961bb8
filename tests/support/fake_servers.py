"""The port ModelServer in memory: a state machine a server, real sockets on 127.0.0.1, answers without a model."""

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

from lmi_deploy.domain.observed import SeenServer
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.ports.processes import Report

Answer = tuple[int, str, bytes]
End = Literal["ready", "failed", "dies", "hangs"]


def chat(body: dict[str, Any]) -> Answer:
    """OpenAI's form, whole or as lines, as our handler gives it: always the same two words."""
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


def silent(body: dict[str, Any]) -> Answer:
    """A loaded model that answers with an error."""
    return 424, "application/json", b'{"code": 424, "message": "prediction failure"}'


@dataclass(frozen=True)
class Behaviour:
    """What a server will do: be looked at `looks` times, then come to its `end`; ready, it `answer`s."""

    looks: int = 2
    end: End = "ready"
    why: str = "the worker ended\nTraceback (most recent call last):\nRuntimeError: no such model"
    answer: Callable[[dict[str, Any]], Answer] = chat


@dataclass
class _Life:
    launch: Launch
    behaviour: Behaviour
    pid: int
    listener: _Listener | None
    phase: Literal["starting", "loading", "ready", "failed", "draining", "gone"] = "loading"
    looks: int = 0
    served: int = 0
    why: str = ""


class FakeModelServers:
    """Every server of one machine. They outlive whoever started them, as processes do; `close` ends them all."""

    def __init__(self) -> None:
        self.next: deque[Behaviour] = deque()
        """What the servers to come will do; an ordinary one when it is empty."""
        self.started: list[Launch] = []
        self.stopped: list[tuple[str, float]] = []
        """Every stop, with its grace."""
        self.foreground_ends_with = 0
        self._lives: dict[Path, _Life] = {}
        self._reserved: dict[int, socket.socket] = {}

    def start(self, launch: Launch) -> SeenServer:
        launch.home.mkdir(parents=True, exist_ok=True)
        self.started.append(launch)
        behaviour = self.next.popleft() if self.next else Behaviour()
        if keep := self._reserved.pop(launch.port, None):
            keep.close()
        listener = _bound(launch.host, launch.port)
        life = _Life(launch=launch, behaviour=behaviour, pid=40_000 + len(self.started), listener=listener)
        self._lives[launch.home] = life
        if listener is None:
            life.phase, life.why = "failed", f"{launch.host}:{launch.port}: Address already in use"
        self.log(launch.home).write_text(f"started {launch.home.name}\n{behaviour.why}\n")
        return self._seen(launch.home)

    def look(self, home: Path) -> SeenServer:
        life = self._lives.get(home)
        if life is not None:
            self._advance(life)
        return self._seen(home)

    def take_over(self, home: Path, previous: Path, *, host: str, port: int) -> None:
        mine, other = self._lives[home], self._lives.get(previous)
        if mine.phase != "ready" or other is None or other.listener is None or other.listener.port != port:
            raise DeployFailed(f"{home.name} could not take {host}:{port}", hint="run `lmi up` again")
        assert mine.listener is not None
        mine.listener.close()
        mine.listener, other.listener = other.listener, None
        mine.listener.holder = mine
        other.phase, other.looks = "draining", 0

    def stop(self, home: Path, *, grace: float) -> None:
        self.stopped.append((home.name, grace))
        life = self._lives.get(home)
        if life is not None:
            self._end(life, "gone")

    def failure(self, home: Path) -> str:
        life = self._lives.get(home)
        return life.why if life else ""

    def foreground(self, launch: Launch, *, report: Report | None = None) -> int:
        if report is not None:
            report("a line of the server's")
        return self.foreground_ends_with

    def log(self, home: Path) -> Path:
        return home / "server.log"

    def kill(self, home: Path) -> None:
        """As kill -9, or a restart of the machine."""
        self._end(self._lives[home], "gone")

    def freeze(self, home: Path) -> None:
        """As kill -STOP: the process is there, and answers nobody."""
        self._lives[home].phase = "starting"

    def alive(self) -> list[str]:
        """The servers that run, by name."""
        return sorted(home.name for home, life in self._lives.items() if life.phase not in ("gone", "failed"))

    def free_port(self, taken: frozenset[int] = frozenset()) -> int:
        """A port that no other test will be given, for as long as this lives; the same until a server has it."""
        if free := next((port for port in self._reserved if port not in taken), None):
            return free
        keep = socket.socket()
        keep.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keep.bind(("127.0.0.1", 0))
        port = int(keep.getsockname()[1])
        self._reserved[port] = keep
        return port

    def close(self) -> None:
        for life in self._lives.values():
            self._end(life, "gone")
        for keep in self._reserved.values():
            keep.close()

    def _advance(self, life: _Life) -> None:
        life.looks += 1
        if life.phase == "draining" and life.looks > 1:
            self._end(life, "gone")
        if life.phase != "loading" or life.looks <= life.behaviour.looks:
            return
        match life.behaviour.end:
            case "ready":
                assert life.listener is not None
                life.listener.open(life)
                life.phase = "ready"
            case "failed":
                self._end(life, "failed")
                life.why = life.behaviour.why
            case "dies":
                self._end(life, "gone")
            case "hangs":
                pass

    def _end(self, life: _Life, phase: Literal["failed", "gone"]) -> None:
        life.phase, life.why = phase, ""
        if life.listener is not None:
            life.listener.close()
            life.listener = None

    def _seen(self, home: Path) -> SeenServer:
        life = self._lives.get(home)
        if life is None or life.phase == "gone":
            return SeenServer(server=home.name, phase="gone", pid=None, port=None)
        pid = None if life.phase == "failed" else life.pid
        port = life.listener.port if life.listener else None
        return SeenServer(server=home.name, phase=life.phase, pid=pid, port=port, served=life.served)


@dataclass
class _Listener:
    """A bound socket, which accepts once it is open; its `holder` answers."""

    bound: socket.socket
    port: int
    holder: _Life | None = None
    server: HTTPServer | None = field(default=None)

    def open(self, holder: _Life) -> None:
        listener = self
        self.holder = holder

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                life = listener.holder
                assert life is not None
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                status, kind, body = life.behaviour.answer(_json(raw))
                life.served += 1
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(ConnectionError):  # who asked may have gone away
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
    """None where somebody else has the port."""
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind((host, port))
    except OSError:
        own.close()
        return None
    return _Listener(bound=own, port=int(own.getsockname()[1]))
