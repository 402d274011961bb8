"""A worker at work: a batch goes in, answers come out, time-outs and death are told apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from lmi_deploy.server import cloud_differences, error_responses
from lmi_deploy.server.error_responses import Refusal
from lmi_deploy.server.log import Log
from lmi_deploy.server.models.properties import ModelSettings
from lmi_deploy.server.workers import batches
from lmi_deploy.server.workers.connection import WorkerLost
from lmi_deploy.server.workers.job_queue import Frame, Job
from lmi_deploy.server.workers.protocol import Answer, WireError
from lmi_deploy.server.workers.worker import Worker

BRISK = 0.002  # seconds of a quick call
BRISK_CALLS = 16  # that many more quick ones than others, and the next ones are taken to be quick, too
FAST_PIECES = 16  # a stream of fewer pieces has not been seen to wedge the real server
FAST_GAP = 0.005  # seconds between two pieces, on average; 10 ms apart none of 873 streams was lost there
HELD_UP = 0.05  # seconds; a longer call is a slow one, whatever else the machine does


class Spent(Exception):
    """The worker cannot go on; `refusal` is for the clients it held, `told` for the log.

    `counted`: whether it counts against retry_threshold.
    """

    def __init__(self, refusal: Refusal, told: str, *, counted: bool = True) -> None:
        super().__init__(told)
        self.refusal = refusal
        self.told = told
        self.counted = counted


Following = Callable[[], Job | None]


class Shift(Protocol):
    """What a pool needs of a worker, whichever engine it runs. `lost` is set when it dies outside of `serve`."""

    lost: asyncio.Future[Spent]
    ahead: Sequence[Job]

    @property
    def pid(self) -> int | None: ...

    async def start(self) -> None: ...

    async def serve(self, jobs: Sequence[Job], following: Following, /) -> None:
        """Answer the jobs; `Spent` when the worker was lost over them.

        The worker may be sent what `following` gives before it has answered: that is `ahead` then, to be served next,
        and not begun when the worker is lost meanwhile: it reads a request only after it answered the one before.
        """

    async def finished(self) -> None:
        """Until nothing is being answered any more."""

    async def stop(self) -> None: ...


class SyncShift:
    """The synchronous engine: one message at a time, the next one after the last frame."""

    def __init__(self, worker: Worker, settings: ModelSettings, log: Log) -> None:
        # Never set: the real server notices a worker's death only when it asks it something.
        self.lost: asyncio.Future[Spent] = asyncio.get_running_loop().create_future()
        self._worker = worker
        self._settings = settings
        self._log = log
        self.ahead: Sequence[Job] = ()
        self._brisk = 0
        self._silent = False
        self._warned = False
        self._stopped = False
        self._streaming: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._worker.pid

    async def start(self) -> None:
        await self._worker.start()

    async def stop(self) -> None:
        self._stopped = True
        await self._worker.stop()

    async def finished(self) -> None:
        await self._stream_over()

    async def serve(self, jobs: Sequence[Job], following: Following, /) -> None:
        if len(jobs) > 1 and any(job.alone for job in jobs):
            for job in jobs:
                await self.serve((job,), _none_follows)
            return
        try:
            answer = await self._asked(jobs, following)
        except WireError as exc:
            _settle(jobs, error_responses.untranslatable(str(exc)))
            return
        if answer is None:
            _settle(jobs, error_responses.untranslatable("Backend Python process is stopped."))
        elif answer.streamed and len(jobs) == 1:
            jobs[0].settle(answer)
            self._streaming = asyncio.create_task(self._stream(jobs[0]))
        elif answer.streamed:
            await self._unsplittable(jobs, answer)
        else:
            _hand_out(jobs, answer)

    async def _asked(self, jobs: Sequence[Job], following: Following) -> Answer | None:
        """None when the worker died in the middle of an earlier stream, or while it was idle."""
        limit = self._settings.limits.predict_timeout
        begun = asyncio.get_running_loop().time()
        until = begun + limit
        sent = jobs is self.ahead
        self.ahead = ()
        try:
            if self._streaming is not None:
                # As in the real server, waiting for an earlier stream to end counts against predict_timeout.
                async with asyncio.timeout_at(until):
                    await self._stream_over()
            if not sent and not self._silent and self._worker.disconnected:
                await self._silence(cloud_differences.IDLE_DEATH)
            if self._silent:
                return None
            if not sent:
                await self._worker.send(*batches.request_of(jobs, self._settings.handler), until)
            if self._brisk >= BRISK_CALLS:
                await self._send_ahead(following(), until)
            answer = await self._worker.answer(until)
        except TimeoutError as exc:
            raise Spent(
                error_responses.timed_out(), f"predict_timeout: no answer within {limit:.0f} s"
            ) from exc
        except WorkerLost as exc:
            raise Spent(error_responses.disconnected(), await self._worker.obituary()) from exc
        took = asyncio.get_running_loop().time() - begun
        self._judge(HELD_UP if answer.streamed else took)
        return answer

    def _judge(self, took: float) -> None:
        if took < BRISK:
            self._brisk = min(self._brisk + 1, 2 * BRISK_CALLS)
        else:
            self._brisk = max(self._brisk - BRISK_CALLS // 2, 0) if took < HELD_UP else 0

    async def _send_ahead(self, job: Job | None, until: float) -> None:
        """Between quick calls the way to the worker and back costs more than the call: the next is there already.

        Never between slow ones: what a client that leaves asked must not be run, and another worker may come free.
        """
        if job is None:
            return
        self.ahead = (job,)
        try:
            await self._worker.send(job.properties, job.content, until)
        except WireError as exc:
            self.ahead = ()
            job.settle(error_responses.untranslatable(str(exc)))

    async def _stream_over(self) -> None:
        running = self._streaming
        if running is None:
            return
        await asyncio.wait({running})
        if self._streaming is running:
            self._streaming = None

    async def _stream(self, job: Job) -> None:
        more, pieces, begun = True, 0, asyncio.get_running_loop().time()
        try:
            while more:
                more, blob = await self._worker.frame()
                pieces += 1
                await job.deliver(Frame(blob, last=not more))
            self._warn_of_fast_stream(pieces, asyncio.get_running_loop().time() - begun)
        except WorkerLost:
            await job.deliver(Frame(lost=True))
            if not self._stopped:
                await self._silence(cloud_differences.SILENT)

    def _warn_of_fast_stream(self, pieces: int, took: float) -> None:
        if not self._warned and pieces >= FAST_PIECES and took < pieces * FAST_GAP:
            self._warned = True
            self._log.warn(
                cloud_differences.FAST_STREAM,
                model=self._settings.name,
                pieces=pieces,
                seconds=round(took, 3),
            )

    async def _unsplittable(self, jobs: Sequence[Job], answer: Answer) -> None:
        more = True
        try:
            while more:
                more, _ = await self._worker.frame()
        except WorkerLost:
            await self._silence(cloud_differences.SILENT)
        _hand_out(jobs, answer)

    async def _silence(self, consequence: str) -> None:
        # A death outside of a call goes unnoticed in the real server: it stays Healthy and answers 400 from then on.
        self._silent = True
        why = await self._worker.obituary()
        self._log.error(consequence, model=self._settings.name, pid=self.pid, why=why)


def _hand_out(jobs: Sequence[Job], answer: Answer) -> None:
    if len(jobs) == 1:
        jobs[0].settle(answer)
        return
    try:
        parts = batches.split(answer, len(jobs))
    except Refusal as refusal:
        if refusal.kind == "WlmException":
            raise Spent(
                refusal, "a batch output without a key costs the real server the worker", counted=False
            ) from None
        _settle(jobs, refusal)
        return
    for job, part in zip(jobs, parts, strict=True):
        job.settle(part)


def _none_follows() -> None:
    return None


def _settle(jobs: Sequence[Job], refusal: Refusal) -> None:
    for job in jobs:
        job.settle(refusal)
