"""The processing of one request by a model: read, queued, answered in one piece or as a stream."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import unquote

from lmi_deploy.server import error_responses
from lmi_deploy.server.async_results import Results
from lmi_deploy.server.http import responses
from lmi_deploy.server.http.connection import ConnectionClosed, Exchange
from lmi_deploy.server.http.handler_input import ModelInput, read_input
from lmi_deploy.server.http.responses import Response, json_response
from lmi_deploy.server.log import Log
from lmi_deploy.server.metrics import Metrics
from lmi_deploy.server.models.registry import Models
from lmi_deploy.server.settings import ServerSettings
from lmi_deploy.server.workers.job_queue import ClientDisconnected, Frame, Job
from lmi_deploy.server.workers.pool import Pool
from lmi_deploy.server.workers.protocol import Pair, WorkerResponse


@dataclass(slots=True)
class Counts:
    """Requests to handlers since the start."""

    served: int = 0
    failed: int = 0
    in_flight: int = 0


class Inference:
    """/invocations, /predictions/NAME, /models/NAME/invoke and /v1/chat/completions."""

    def __init__(self, models: Models, settings: ServerSettings, log: Log, *, metrics: Metrics) -> None:
        self.counts = Counts()
        self.models = models
        self._settings = settings
        self._log = log
        self._metrics = metrics
        self._results = Results(log)

    async def __call__(self, exchange: Exchange) -> None:
        requested = read_input(
            exchange.request, exchange.request_id, named=self._settings.handler_may_be_named
        )
        if token := requested.value("x-starting-token"):
            await exchange.reply(self._results.poll(token, _items(requested)))
            return
        pool = self._chosen(requested)
        if exchange.request.method == "OPTIONS":
            await exchange.reply(json_response({}))
            return
        self.counts.in_flight += 1
        try:
            await self._infer(exchange, requested, pool)
        except error_responses.ErrorReply as refusal:
            self._metrics.refused(refusal.kind, refusal.status)
            raise
        else:
            self._metrics.answered(exchange.status)
        finally:
            self.counts.in_flight -= 1
            well = 0 < exchange.status < 500 and exchange.status != 424
            self.counts.served += well
            self.counts.failed += not well

    def _chosen(self, requested: ModelInput) -> Pool:
        # As the real server: first decoded, then split, so that %2F divides as well.
        parts = unquote(requested.path).rstrip("/").split("/")[1:]
        if parts[0] == "predictions":
            if len(parts) < 2:
                raise error_responses.unknown_path()
            return self.models.next_of(parts[1], parts[2] if len(parts) > 2 else None)
        name = parts[1] if parts[0] == "models" else self._stated_name(requested)
        if name is None:
            name = self.models.startup_name()
        if name is None:
            raise error_responses.bad_request("Parameter model_name is required.")
        return self.models.next_of(name, requested.stated("model_version"))

    def _stated_name(self, requested: ModelInput) -> str | None:
        """An empty one is a name, too: that of no model."""
        stated = requested.stated("model_name")
        return stated if stated is not None else requested.entry("model_name")

    async def _infer(self, exchange: Exchange, requested: ModelInput, pool: Pool) -> None:
        if "handler" not in requested.named:
            requested.set("handler", pool.settings.handler)
        later = (requested.value("x-synchronous") or "true").lower() != "true"
        future: asyncio.Future[WorkerResponse] = asyncio.get_running_loop().create_future()
        job = Job(
            requested.properties(), requested.content, _never if later else exchange.is_disconnected, future
        )
        if later:
            await self._later(exchange, job, pool, requested)
            return
        await _submit(pool, job, requested)
        try:
            response = await self._head(future, pool)
            await (
                self._stream(exchange, job, response)
                if response.streamed
                else self._unary(exchange, response)
            )
        except ClientDisconnected as exc:
            raise ConnectionClosed from exc
        finally:
            job.abandon()

    async def _later(self, exchange: Exchange, job: Job, pool: Pool, requested: ModelInput) -> None:
        """The token is returned before any work starts: a poll with the token finds out that the queue was full."""
        result = self._results.add(job)
        await exchange.reply(result.receipt())
        try:
            await _submit(pool, job, requested)
        except error_responses.ErrorReply as refusal:
            job.settle(refusal)
        else:
            if pool.settings.async_mode:
                result.stream()

    async def _head(self, future: asyncio.Future[WorkerResponse], pool: Pool) -> WorkerResponse:
        if not pool.settings.async_mode:
            return await future  # predict_timeout cancels it
        try:
            async with asyncio.timeout(self._settings.chunked_read_timeout):
                return await future
        except TimeoutError as exc:
            raise ConnectionClosed from exc

    async def _unary(self, exchange: Exchange, response: WorkerResponse) -> None:
        headers, reason = _head_of(response)
        await exchange.reply(Response(response.code, headers, response.body(), reason))

    async def _stream(self, exchange: Exchange, job: Job, response: WorkerResponse) -> None:
        """The head waits for the first chunk; if that is also the last, it is an ordinary response."""
        headers, reason = _head_of(response)
        started = False
        while True:
            frame = await self._frame(job)
            if frame.last and not started:
                await exchange.reply(Response(response.code, headers, frame.blob, reason))
                return
            if not started and frame.blob:
                await exchange.start_stream(response.code, reason, headers)
                started = True
            await exchange.send_chunk(frame.blob)
            if frame.last:
                await exchange.end_stream()
                return

    async def _frame(self, job: Job) -> Frame:
        limit = self._settings.chunked_read_timeout
        try:
            async with asyncio.timeout(limit):
                frame = await job.frames.get()
        except TimeoutError as exc:
            self._log.warn("chunked_read_timeout: no further piece of a stream", seconds=limit)
            raise ConnectionClosed from exc
        if frame.lost:
            raise ConnectionClosed
        return frame


async def _submit(pool: Pool, job: Job, requested: ModelInput) -> None:
    """As `ModelInfo.ModelThread` of the real server: a query or form that names an unknown adapter is not run."""
    if refused := pool.adapters.refused(requested.entry("adapter")):
        job.settle(WorkerResponse(503, refused))
    else:
        await pool.submit(job)


def _head_of(response: WorkerResponse) -> tuple[list[Pair], str]:
    reason = responses.reason_phrase(response)
    responses.check_status(response.code, reason)
    return responses.handler_headers(response.properties), reason


def _items(requested: ModelInput) -> int | None:
    """How many pieces one poll may give; None for all."""
    text = requested.value("x-max-items") or "-1"
    try:
        return int(text) if int(text) >= 0 else None
    except ValueError as exc:
        raise error_responses.ErrorReply(500, "NumberFormatException", f'For input string: "{text}"') from exc


def _never() -> bool:
    return False
