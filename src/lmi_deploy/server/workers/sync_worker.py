"""A synchronous worker: takes a batch, returns responses, and distinguishes time-outs from crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lmi_deploy.server import error_responses, sagemaker_differences
from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.log import Log
from lmi_deploy.server.models.serving_properties import ServingProperties
from lmi_deploy.server.workers.batch_queue import Frame, QueuedRequest, merge_requests, split_response
from lmi_deploy.server.workers.djl_protocol import WireError, WorkerResponse
from lmi_deploy.server.workers.worker import Worker
from lmi_deploy.server.workers.worker_connection import WorkerLost
from lmi_deploy.server.workers.worker_group import Following, WorkerFailed

FAST_RESPONSE = 0.002  # seconds of a quick call
FAST_RESPONSES = 16  # if there are that many more quick ones than others, the next ones count as quick, too
FAST_CHUNKS = 16  # a stream of fewer pieces was never observed to block the real server
FAST_GAP = 0.005  # seconds between two pieces, on average; at 10 ms none of 873 streams was lost
SLOW_CALL = 0.05  # seconds; a longer call counts as slow, whatever the load of the machine


class SyncWorkerSession:
    """The synchronous engine: one message at a time, the next one after the last frame."""

    def __init__(self, worker: Worker, settings: ServingProperties, log: Log) -> None:
        # Never set: the real server notices a worker's death only with the next request to it.
        self.worker_lost: asyncio.Future[WorkerFailed] = asyncio.get_running_loop().create_future()
        self._worker = worker
        self._settings = settings
        self._log = log
        self.fetched: Sequence[QueuedRequest] = ()
        self._fast_responses = 0
        self._timed_out = False
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
        running = self._streaming
        if running is None:
            return
        await asyncio.wait({running})
        if self._streaming is running:
            self._streaming = None

    async def serve(self, jobs: Sequence[QueuedRequest], following: Following, /) -> None:
        if len(jobs) > 1 and any(job.alone for job in jobs):
            for job in jobs:
                await self.serve((job,), lambda: None)
            return
        try:
            response = await self._request_batch(jobs, following)
        except WireError as exc:
            _settle(jobs, error_responses.untranslatable(str(exc)))
            return
        if response is None:
            _settle(jobs, error_responses.untranslatable("Backend Python process is stopped."))
        elif response.streamed and len(jobs) == 1:
            jobs[0].settle(response)
            self._streaming = asyncio.create_task(self._stream(jobs[0]))
        elif response.streamed:
            await self._unsplittable(jobs, response)
        else:
            _hand_out(jobs, response)

    async def _request_batch(
        self, jobs: Sequence[QueuedRequest], following: Following
    ) -> WorkerResponse | None:
        """None when the worker died in the middle of an earlier stream, or while it was idle."""
        limit = self._settings.limits.predict_timeout
        started = asyncio.get_running_loop().time()
        until = started + limit
        sent = jobs is self.fetched
        self.fetched = ()
        try:
            if self._streaming is not None:
                # As in the real server, waiting for an earlier stream to end counts against predict_timeout.
                async with asyncio.timeout_at(until):
                    await self.finished()
            if not sent and not self._timed_out and self._worker.connection.at_end:
                await self._silence(sagemaker_differences.IDLE_DEATH)
            if self._timed_out:
                return None
            if not sent:
                await self._worker.connection.send(*merge_requests(jobs, self._settings.handler), until)
            if self._fast_responses >= FAST_RESPONSES:
                await self._send_ahead(following(), until)
            response = await self._worker.connection.read_response(until)
        except TimeoutError as exc:
            raise WorkerFailed(
                error_responses.timed_out(), f"predict_timeout: no response within {limit:.0f} s"
            ) from exc
        except WorkerLost as exc:
            raise WorkerFailed(error_responses.disconnected(), await self._worker.exit_reason()) from exc
        took = asyncio.get_running_loop().time() - started
        self._check_response(SLOW_CALL if response.streamed else took)
        return response

    def _check_response(self, took: float) -> None:
        if took < FAST_RESPONSE:
            self._fast_responses = min(self._fast_responses + 1, 2 * FAST_RESPONSES)
        else:
            self._fast_responses = (
                max(self._fast_responses - FAST_RESPONSES // 2, 0) if took < SLOW_CALL else 0
            )

    async def _send_ahead(self, job: QueuedRequest | None, until: float) -> None:
        """Between quick calls the way to the worker and back costs more than the call, so the next job is sent ahead.

        Never between slow ones: the request of a client that leaves must not run, and another worker may become free.
        """
        if job is None:
            return
        self.fetched = (job,)
        try:
            await self._worker.connection.send(job.properties, job.content, until)
        except WireError as exc:
            self.fetched = ()
            job.settle(error_responses.untranslatable(str(exc)))

    async def _stream(self, job: QueuedRequest) -> None:
        more, chunks, started = True, 0, asyncio.get_running_loop().time()
        try:
            while more:
                more, blob = await self._worker.connection.frame()
                chunks += 1
                await job.deliver(Frame(blob, last=not more))
            took = asyncio.get_running_loop().time() - started
            if not self._warned and chunks >= FAST_CHUNKS and took < chunks * FAST_GAP:
                self._warned = True
                facts = {"model": self._settings.name, "pieces": chunks, "seconds": round(took, 3)}
                self._log.warn(sagemaker_differences.FAST_STREAM, **facts)
        except WorkerLost:
            await job.deliver(Frame(lost=True))
            if not self._stopped:
                await self._silence(sagemaker_differences.SILENT)

    async def _unsplittable(self, jobs: Sequence[QueuedRequest], response: WorkerResponse) -> None:
        more = True
        try:
            while more:
                more, _ = await self._worker.connection.frame()
        except WorkerLost:
            await self._silence(sagemaker_differences.SILENT)
        _hand_out(jobs, response)

    async def _silence(self, consequence: str) -> None:
        # The real server does not notice a death outside of a call: it stays Healthy and answers 400 from then on.
        self._timed_out = True
        why = await self._worker.exit_reason()
        self._log.error(consequence, model=self._settings.name, pid=self.pid, why=why)


def _hand_out(jobs: Sequence[QueuedRequest], response: WorkerResponse) -> None:
    if len(jobs) == 1:
        jobs[0].settle(response)
        return
    try:
        parts = split_response(response, len(jobs))
    except ErrorReply as refusal:
        if refusal.kind == "WlmException":
            raise WorkerFailed(
                refusal, "a batch output without a key ends the worker, as in DJLServing", counted=False
            ) from None
        _settle(jobs, refusal)
        return
    for job, part in zip(jobs, parts, strict=True):
        job.settle(part)


def _settle(jobs: Sequence[QueuedRequest], refusal: ErrorReply) -> None:
    for job in jobs:
        job.settle(refusal)
