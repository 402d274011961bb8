"""One real DJL worker, driven without an HTTP server: requests to a handler and its responses."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lmi_deploy.server.http.socket_stream import SocketStream
from lmi_deploy.server.workers.djl_protocol import Entry, Pair, WireReader, WorkerResponse, pack_request

STARTED = b"Python engine started."
TIMEOUT = 120.0
HEADERS = {"Content-Type": "application/json"}
EVENTS = {**HEADERS, "accept": "text/event-stream, */*;q=0.1"}


@dataclass(frozen=True)
class Reply:
    """A response with its body; a streamed one has its frames, too."""

    code: int
    properties: dict[str, str]
    body: bytes
    frames: tuple[bytes, ...] = ()
    items: tuple[bytes, ...] = field(default=(), repr=False)
    """The bodies of a batch."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.decode().splitlines()]

    @property
    def events(self) -> list[Any]:
        """The data of server-sent events, without the `[DONE]` at their end."""
        return read_events(self.body)


class Worker:
    """`djl_python_engine.py` on a socket of its own, from entering the context to leaving it."""

    def __init__(self, python: Path, engine: Path, model_dir: Path, *, entry_point: str = "model.py") -> None:
        self._python, self._engine, self._model_dir = python, engine, model_dir
        self._entry_point = entry_point
        self._runner = asyncio.Runner()
        self._home = Path(tempfile.mkdtemp(prefix="lmi-worker-"))
        self.log: list[str] = []

    def __enter__(self) -> Self:
        self._runner.run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._end())
        self._runner.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def load(self, **options: object) -> Reply:
        """The warm-up call, with the options as the server would send them."""
        return self._send([(key, str(value)) for key, value in options.items()], [])

    def invoke(self, body: object, headers: Mapping[str, str] = HEADERS) -> Reply:
        """One request; a `body` of bytes is sent unchanged, any other as JSON."""
        return self._send(list(headers.items()), [("data", _raw(body))])

    def invoke_entry(self, key: str, value: bytes) -> Reply:
        """One request whose content came as a form field."""
        return self._send([], [(key, value)])

    def invoke_batch(self, bodies: Sequence[object], headers: Mapping[str, str] = HEADERS) -> Reply:
        """Several requests that the server batched; `items` of the reply are in their order."""
        content: list[Entry] = [(f"batch_{at:03}.data", _raw(body)) for at, body in enumerate(bodies)]
        properties = [
            (f"batch_{at:03}.{key}", value) for at in range(len(bodies)) for key, value in headers.items()
        ]
        return self._send([*properties, ("batch_size", str(len(bodies)))], content)

    async def _start(self) -> None:
        socket = self._home / "sock"
        argv: list[str | Path] = [
            self._engine / "djl_python_engine.py",
            "--sock-type",
            "unix",
            "--sock-name",
            socket,
        ]
        argv += ["--model-dir", self._model_dir, "--entry-point", self._entry_point, "--device-id", "-1"]
        argv += [
            "--cluster-size",
            "1",
            "--recommended-entry-point",
            "",
            "--log-level",
            "info",
            "--no-async-mode",
        ]
        path = f"{self._engine}{os.pathsep}{self._model_dir}"
        self._process = await asyncio.create_subprocess_exec(
            self._python,
            *argv,
            cwd=self._model_dir,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        started = asyncio.Event()
        self._listening = asyncio.create_task(self._listen(started))
        await asyncio.wait_for(started.wait(), TIMEOUT)
        if self._process.returncode is not None:
            raise RuntimeError("the worker did not start:\n" + "\n".join(self.log))
        loop = asyncio.get_running_loop()
        _, self._stream = await loop.create_unix_connection(SocketStream, str(socket))
        self._reader = WireReader(self._stream)

    async def _listen(self, started: asyncio.Event) -> None:
        assert self._process.stdout
        async for line in self._process.stdout:
            self.log.append(line.decode(errors="replace").rstrip())
            if STARTED in line:
                started.set()
        await self._process.wait()
        started.set()

    async def _end(self) -> None:
        if hasattr(self, "_stream"):
            self._stream.close()
        if self._process.returncode is None:
            self._process.kill()
        await self._listening

    def _send(self, properties: list[Pair], content: list[Entry]) -> Reply:
        return self._runner.run(self._exchange(pack_request([*properties, ("handler", "handle")], content)))

    async def _exchange(self, request: bytes) -> Reply:
        self._stream.write(request)
        async with asyncio.timeout(TIMEOUT):
            response = await self._reader.read_response()
            frames = await self._frames() if response.streamed else ()
        return _reply(response, frames)

    async def _frames(self) -> tuple[bytes, ...]:
        frames, more = [], True
        while more:
            more, frame = await self._reader.frame()
            frames.append(frame)
        return tuple(frame for frame in frames if frame)


def read_events(body: bytes) -> list[Any]:
    """The data of server-sent events: each is a line and an empty line, and the last is `[DONE]`, which is
    omitted."""
    *events, end = body.decode().split("\n\n")
    assert end == ""
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    assert events.pop() == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def _raw(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def _reply(response: WorkerResponse, frames: tuple[bytes, ...]) -> Reply:
    return Reply(
        code=response.code,
        properties=dict(response.properties),
        body=b"".join(frames) if response.streamed else response.body(),
        frames=frames,
        items=tuple(value for _, value in response.content),
    )
