"""The processing of one request by a model: read, queued, answered in one piece or as a stream."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass
from urllib.parse import unquote

from lmi_deploy.server import error_responses
from lmi_deploy.server.async_results import Results
from lmi_deploy.server.http import responses
from lmi_deploy.server.http.client_connection import ConnectionClosed, Exchange
from lmi_deploy.server.http.handler_input import ModelInput, read_input
from lmi_deploy.server.http.responses import Response, json_response
from lmi_deploy.server.log import Log
from lmi_deploy.server.models.model_registry import Models
from lmi_deploy.server.prometheus_metrics import PrometheusMetrics
from lmi_deploy.server.server_settings import ServerSettings
from lmi_deploy.server.workers.batch_queue import ClientDisconnected, Frame, QueuedRequest
from lmi_deploy.server.workers.djl_protocol import WorkerResponse
from lmi_deploy.server.workers.pool import Pool


@dataclass(slots=True)
class Counts:
    """Requests to handlers since the start."""

    served: int = 0
    failed: int = 0
    in_flight: int = 0


class InferenceApi:
    """/invocations, /predictions/NAME, /models/NAME/invoke and /v1/chat/completions."""

    def __init__(
        self, models: Models, settings: ServerSettings, log: Log, *, metrics: PrometheusMetrics
    ) -> None:
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
            limit = error_responses.parse_integer(requested.value("x-max-items") or "-1", 500)
            await exchange.reply(self._results.poll(token, limit if limit >= 0 else None))
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
        if parts[0] == "models":
            name: str | None = parts[1]
        elif (
            name := requested.stated("model_name")
        ) is None:  # an empty one is a name, too: that of no model
            name = requested.entry("model_name")
        if name is None and (name := self.models.startup_name()) is None:
            raise error_responses.bad_request("Parameter model_name is required.")
        return self.models.next_of(name, requested.stated("model_version"))

    async def _infer(self, exchange: Exchange, requested: ModelInput, pool: Pool) -> None:
        if "handler" not in requested.named:
            requested.set("handler", pool.settings.handler)
        later = (requested.value("x-synchronous") or "true").lower() != "true"
        future: asyncio.Future[WorkerResponse] = asyncio.get_running_loop().create_future()
        job = QueuedRequest(requested.properties(), requested.content, exchange.is_disconnected, future)
        if later:
            await self._later(exchange, job, pool, requested)
            return
        await _submit(pool, job, requested)
        # Of a synchronous worker, predict_timeout limits the wait.
        limit = self._settings.chunked_read_timeout if pool.settings.async_mode else None
        try:
            async with asyncio.timeout(limit):
                response = await future
            headers, reason = responses.handler_head(response)
            if response.streamed:
                await self._stream(exchange, job, Response(response.code, headers, reason=reason))
            else:
                await exchange.reply(Response(response.code, headers, response.body(), reason))
        except (ClientDisconnected, TimeoutError) as exc:
            raise ConnectionClosed from exc
        finally:
            job.abandon()

    async def _later(self, exchange: Exchange, job: QueuedRequest, pool: Pool, requested: ModelInput) -> None:
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

    async def _stream(self, exchange: Exchange, job: QueuedRequest, head: Response) -> None:
        """The head waits for the first chunk; if that is also the last, it is an ordinary response."""
        started = False
        while True:
            frame = await self._frame(job)
            if frame.last and not started:
                await exchange.reply(dataclasses.replace(head, body=frame.blob))
                return
            if not started and frame.blob:
                await exchange.start_stream(head)
                started = True
            await exchange.send_chunk(frame.blob)
            if frame.last:
                await exchange.end_stream()
                return

    async def _frame(self, job: QueuedRequest) -> Frame:
        limit = self._settings.chunked_read_timeout
        try:
            async with asyncio.timeout(limit):
                frame = await job.frames.get()
        except TimeoutError as exc:
            self._log.warn("chunked_read_timeout: no further chunk of a stream arrived", seconds=limit)
            raise ConnectionClosed from exc
        if frame.lost:
            raise ConnectionClosed
        return frame


async def _submit(pool: Pool, job: QueuedRequest, requested: ModelInput) -> None:
    """As `ModelInfo.ModelThread` of the real server, a query or form that names an unknown adapter is not run: 503, as
    `ModelServerTest` expects. SageMaker's header reaches the handler, and DJL's own handlers answer 424.
    """
    if refused := pool.adapters.refused(requested.entry("adapter")):
        job.settle(WorkerResponse(503, refused))
    else:
        await pool.submit(job)
