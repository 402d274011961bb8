"""A worker of the asynchronous engine: many requests at once, response pieces in any order."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from lmi_deploy.server import error_responses
from lmi_deploy.server.log import Log
from lmi_deploy.server.workers.batch_queue import Frame, QueuedRequest
from lmi_deploy.server.workers.djl_protocol import WireError, WorkerResponse, alphabetical, unpack_map
from lmi_deploy.server.workers.worker import Worker
from lmi_deploy.server.workers.worker_connection import WorkerLost
from lmi_deploy.server.workers.worker_group import Following, WorkerFailed

TRACKING = "request_tracking_id"
MAX_FRAMES = 65_536  # for a client that reads slower than its response arrives; one more and it is cut off
MAX_PENDING = 4096


@dataclass(slots=True)
class _Request:
    """A job at the worker. `data` and `last`: the latest values in its pieces; a piece may leave them out."""

    job: QueuedRequest
    data: str | None = None
    last: bool = False


class AsyncWorkerSession:
    """Sends immediately and returns; one reader passes every piece to its job."""

    def __init__(self, worker: Worker, log: Log) -> None:
        self.worker_lost: asyncio.Future[WorkerFailed] = asyncio.get_running_loop().create_future()
        self.fetched: Sequence[QueuedRequest] = ()  # everything is sent at once, without waiting
        self._worker = worker
        self._log = log
        self._pending: dict[str, _Request] = {}
        self._reader: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._worker.pid

    async def start(self) -> None:
        await self._worker.start()
        self._reader = asyncio.create_task(self._read())

    async def stop(self) -> None:
        if self._reader is not None and self._reader is not asyncio.current_task():
            self._reader.cancel()
        self._fail_pending()
        await self._worker.stop()

    async def finished(self) -> None:
        while self._pending and not self.worker_lost.done():
            await asyncio.sleep(0.05)
            self._forget_abandoned(0)

    async def serve(self, jobs: Sequence[QueuedRequest], _: Following, /) -> None:
        for job in jobs:
            await self._send(job)

    async def _send(self, job: QueuedRequest) -> None:
        job.frames = asyncio.Queue()  # unbounded: one slow reader must not block the others
        tracking = str(uuid.uuid4())
        self._forget_abandoned(MAX_PENDING)
        self._pending[tracking] = _Request(job)
        try:
            await self._worker.connection.send(
                alphabetical([*job.properties, (TRACKING, tracking)]), job.content
            )
        except WorkerLost:
            self._fail_pending()
        except WireError as exc:
            del self._pending[tracking]
            job.settle(error_responses.untranslatable(str(exc)))

    def _forget_abandoned(self, over: int) -> None:
        # A generator that raised never reports its end: its entry would stay for ever.
        if len(self._pending) > over:
            self._pending = {
                key: request for key, request in self._pending.items() if not request.job.abandoned
            }

    async def _read(self) -> None:
        try:
            while True:
                self._arrived(await self._worker.connection.read_response())
        except (WorkerLost, WireError) as exc:
            self._fail_pending()
            if not self.worker_lost.done():
                self.worker_lost.set_result(WorkerFailed(error_responses.disconnected(), str(exc)))

    def _arrived(self, response: WorkerResponse) -> None:
        tracking = next((value for key, value in response.properties if key == TRACKING), "")
        request = self._pending.get(tracking)
        if request is None:
            self._log.warn("a response arrived after the last one", request_tracking_id=tracking)
            return
        job = request.job
        if response.code != 200:
            self._fail(tracking, job, response.code, f"Async Inference Failure {response.message}")
            return
        try:
            self._chunk(tracking, request, response)
        except WireError:
            job.settle(WorkerResponse(500, "OK", response.properties, streamed=True))
            raise

    def _chunk(self, tracking: str, request: _Request, response: WorkerResponse) -> None:
        """As `Request.addResponse` of the real server: a field that a piece leaves out keeps the value of the piece
        before.
        """
        chunk = unpack_map(response.content[0][1] if response.content else b"")
        job = request.job
        request.data = chunk.get("data", request.data)
        request.last = chunk["last"].lower() == "true" if "last" in chunk else request.last
        if not request.data and not request.last:
            return  # an error, too: its client waits until chunked_read_timeout, as in DJLServing
        if "code" in chunk:
            code, error = _code(chunk["code"]), chunk.get("error")
            fields = {"error": error, "code": code} if error is not None else {"code": code}
            head = WorkerResponse(code, error or "", response.properties, streamed=True)
            self._end(tracking, job, head=head, blob=_compact_json(fields))
            return
        if request.data is None:
            raise WireError("the response of an async handler has no data")
        job.settle(WorkerResponse(200, "OK", response.properties, streamed=True))
        self._deliver(job, Frame(request.data.encode(), last=request.last))
        if request.last:
            del self._pending[tracking]

    def _end(self, tracking: str, job: QueuedRequest, *, head: WorkerResponse, blob: bytes) -> None:
        job.settle(head)
        self._deliver(job, Frame(blob, last=True))
        self._pending.pop(tracking, None)

    def _deliver(self, job: QueuedRequest, frame: Frame) -> None:
        if job.abandoned:
            return
        if job.frames.qsize() > MAX_FRAMES:
            job.abandon()
            job.frames.put_nowait(Frame(lost=True))
        else:
            job.frames.put_nowait(frame)

    def _fail_pending(self) -> None:
        for tracking, request in list(self._pending.items()):
            self._fail(tracking, request.job, 500, "Inference Engine Failure")

    def _fail(self, tracking: str, job: QueuedRequest, code: int, message: str) -> None:
        """The body is an Output as the real server's JSON library writes it."""
        shown = {"code": code, "message": message, "properties": {}, "content": {"keys": [], "values": []}}
        blob = _compact_json(shown | {"cancelled": False})
        self._end(tracking, job, head=WorkerResponse(code, "OK", streamed=True), blob=blob)


def _code(text: str) -> int:
    try:
        return int(text)
    except ValueError as exc:
        raise WireError(f"code={text}: the code of an async handler must be a whole number") from exc


def _compact_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
