"""Requests waiting for a worker: one job each, first in, first out; and batches of them, made and split."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lmi_deploy.server import error_responses
from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.workers.djl_protocol import Entry, Pair, WorkerResponse, alphabetical

FRAMES_AHEAD = 16
_OUTPUT = re.compile(r"batch_(\d+)\.(.*)", re.DOTALL)


class ClientDisconnected(Exception):
    """No client waits for this job's response any more."""


@dataclass(slots=True)
class Frame:
    """One piece of a streamed response. `lost`: the worker stopped instead of sending the rest."""

    blob: bytes = field(default=b"", repr=False)
    last: bool = False
    lost: bool = False


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """The request of a client, and the destination of its response."""

    properties: list[Pair]
    content: list[Entry]
    is_disconnected: Callable[[], bool]
    response: asyncio.Future[WorkerResponse]
    frames: asyncio.Queue[Frame] = field(default_factory=lambda: asyncio.Queue(FRAMES_AHEAD))
    abandoned: bool = False
    start: float = 0.0
    """When it began to wait, by the loop's clock."""
    alone: bool = False
    """Whether it must not be batched with others: it calls another function of the handler."""

    def settle(self, outcome: WorkerResponse | BaseException) -> None:
        """Set the head of the response, or the reason why there is none; does nothing when it is already set."""
        if self.response.done():
            return
        if isinstance(outcome, BaseException):
            self.response.set_exception(outcome)
            # A client that left does not fetch the failure; that is no reason for asyncio to complain.
            self.response.exception()
        else:
            self.response.set_result(outcome)

    async def deliver(self, frame: Frame) -> None:
        """Pass a frame on; waits while the client reads slower than the worker sends."""
        if not self.abandoned:
            await self.frames.put(frame)

    def abandon(self) -> None:
        """The client has disconnected: further pieces are dropped, and the worker does not wait for a reader."""
        self.abandoned = True
        while not self.frames.empty():
            self.frames.get_nowait()


class BatchQueue:
    """First in, first out; several consumers; a job whose client has disconnected is skipped."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._jobs: deque[QueuedRequest] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def capacity_left(self) -> int:
        return self.size - len(self._jobs)

    def put(self, job: QueuedRequest) -> None:
        self._jobs.append(job)
        self._wake()

    def put_back(self, jobs: Sequence[QueuedRequest]) -> None:
        """Put jobs that were taken and not started before all others."""
        self._jobs.extendleft(reversed(jobs))
        self._wake()

    async def take(self, *, most: int, delay: float, idle: float | None) -> list[QueuedRequest]:
        """Up to `most` jobs: the first as soon as there is one, the others within `delay` seconds after it.

        Empty if `idle` seconds pass without a job.
        """
        now = asyncio.get_running_loop().time
        while (first := await self._one(idle)) is not None:
            batch = [first]
            try:
                until = now() + delay
                while len(batch) < most and (job := await self._one(until - now())) is not None:
                    batch.append(job)
            except asyncio.CancelledError:
                self.put_back(batch)
                raise
            # While a batch is filling, a client of it may leave: as in the real server, its job is left out.
            if kept := [job for job in batch if len(batch) == 1 or self._awaited(job)]:
                return kept
        return []

    def _awaited(self, job: QueuedRequest) -> bool:
        if missing := job.is_disconnected():
            job.settle(ClientDisconnected())
        return not missing

    def drain(self) -> list[QueuedRequest]:
        """All waiting jobs, removed from the queue."""
        waiting = list(self._jobs)
        self._jobs.clear()
        return waiting

    async def _one(self, limit: float | None) -> QueuedRequest | None:
        job = self.next()
        if job is not None:
            return job
        if limit is None:
            return await self._waited()
        try:
            async with asyncio.timeout(limit):
                return await self._waited()
        except TimeoutError:
            return None

    async def _waited(self) -> QueuedRequest:
        while True:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake()  # woken and timed out in the same moment: the job is for the next taker
                raise
            job = self.next()
            if job is not None:
                return job

    def next(self) -> QueuedRequest | None:
        """The first job whose client is still connected, without waiting for one."""
        while self._jobs:
            job = self._jobs.popleft()
            if self._awaited(job):
                return job
        return None

    def _wake(self) -> None:
        while self._takers:
            turn = self._takers.popleft()
            if not turn.done():
                turn.set_result(None)
                return


def merge_requests(jobs: Sequence[QueuedRequest], handler: str) -> tuple[list[Pair], list[Entry]]:
    """One message for all jobs; a single one travels as an ordinary request."""
    if len(jobs) == 1:
        return jobs[0].properties, jobs[0].content
    properties = [("batch_size", str(len(jobs))), ("handler", handler)]
    content: list[Entry] = []
    for number, job in enumerate(jobs):
        start = f"batch_{number:03d}."
        properties += [(start + key, value) for key, value in job.properties if key != "handler"]
        content += [(start + (key or "data"), blob) for key, blob in job.content]
    return alphabetical(properties), content


def split_response(response: WorkerResponse, size: int) -> list[WorkerResponse]:
    """One response per job; code, message and properties are shared. Raises `ErrorReply` when they do not match."""
    if response.code >= 300:
        return [response] * size
    if len(response.content) != size:
        found = 1 if response.streamed else len(response.content)
        raise error_responses.untranslatable(f"Batch output size mismatch, expected: {size}, actual: {found}")
    parts: list[WorkerResponse | None] = [None] * size
    for key, blob in response.content:
        if key is None:
            # The real server falls over it, and loses the worker with it.
            cause = 'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null'
            raise ErrorReply(503, "WlmException", cause)
        matched = _OUTPUT.fullmatch(key)
        if matched is None or int(matched[1]) >= size:
            raise error_responses.untranslatable(f"Unexpected batch output key: {key}")
        part = WorkerResponse(
            response.code, response.message, response.properties, ((matched[2] or None, blob),)
        )
        parts[int(matched[1])] = part
    return [part or WorkerResponse(response.code, response.message, response.properties) for part in parts]
