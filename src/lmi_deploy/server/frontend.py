"""What each path answers."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from lmi_deploy.server import answers, refusals
from lmi_deploy.server.answers import Reply, json_reply
from lmi_deploy.server.connection import Exchange, Hangup
from lmi_deploy.server.inputs import ModelInput, read_input
from lmi_deploy.server.jobs import ClientGone, Frame, Job
from lmi_deploy.server.log import Log
from lmi_deploy.server.models import Models, described, health, listed
from lmi_deploy.server.pool import Pool, Status
from lmi_deploy.server.refusals import Refusal
from lmi_deploy.server.settings import ServerSettings
from lmi_deploy.server.wire import Answer

_INFERENCE = re.compile(
    r"/(ping|invocations|predictions|v1/chat/completions)([/?].*)?|/models/.+/invoke", re.DOTALL
)


@dataclass(slots=True)
class Counts:
    """Requests to handlers since the start."""

    served: int = 0
    failed: int = 0
    in_flight: int = 0


class FrontEnd:
    """Routes and the way of one request through a model."""

    def __init__(self, models: Models, settings: ServerSettings, log: Log) -> None:
        self.counts = Counts()
        self._models = models
        self._settings = settings
        self._log = log

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request, whatever comes of it."""
        try:
            await self._route(exchange)
        except Refusal as refusal:
            status = refusal.configured(self._settings.keys)
            await exchange.reply(answers.refusal_reply(refusal, status))

    async def _route(self, exchange: Exchange) -> None:
        target = exchange.request.target
        if not _INFERENCE.fullmatch(target):
            await exchange.reply(self._managed(exchange))
        elif target.startswith("/ping"):
            await exchange.reply(self._ping())
        else:
            await self._predict(exchange)

    def _ping(self) -> Reply:
        states = {pool.settings.name: {"status": health(pool)} for pool in self._models}
        failed = any(pool.status is Status.FAILED for pool in self._models)
        return json_reply(states, 500 if failed else 200)

    def _managed(self, exchange: Exchange) -> Reply:
        method, path = exchange.request.method, exchange.request.target.partition("?")[0]
        if method == "OPTIONS" and path == "/":
            return json_reply({})
        if path.rstrip("/") == "/models":
            if method != "GET":
                raise refusals.wrong_method()
            return json_reply({"models": [listed(pool) for pool in self._models]})
        if path.startswith("/models/"):
            if method != "GET":
                raise refusals.wrong_method()
            return self._describe(path.removeprefix("/models/").rstrip("/"))
        raise refusals.unknown_path()

    def _describe(self, name: str) -> Reply:
        try:
            pool = self._models.named(name)
        except Refusal as exc:
            raise refusals.unknown_model(name, "Workflow") from exc
        return json_reply([described(pool, startup=name in self._models.startup)])

    async def _predict(self, exchange: Exchange) -> None:
        asked = read_input(
            exchange.request, exchange.request_id, handler_may_be_named=self._settings.handler_may_be_named
        )
        pool = self._chosen(asked)
        if exchange.request.method == "OPTIONS":
            await exchange.reply(json_reply({}))
            return
        self.counts.in_flight += 1
        try:
            await self._infer(exchange, asked, pool)
        finally:
            self.counts.in_flight -= 1
            well = 0 < exchange.status < 500 and exchange.status != 424
            self.counts.served += well
            self.counts.failed += not well

    def _chosen(self, asked: ModelInput) -> Pool:
        parts = asked.path.split("/")[1:]
        if parts[0] == "predictions":
            if len(parts) < 2 or not parts[1]:
                raise refusals.unknown_path()
            return self._models.named(parts[1], parts[2] if len(parts) > 2 else None)
        if parts[0] == "models":
            return self._models.named("/".join(parts[1:-1]))
        name = asked.entry("model_name") or asked.value("model_name")
        return self._models.named(name) if name else self._models.only_startup()

    async def _infer(self, exchange: Exchange, asked: ModelInput, pool: Pool) -> None:
        if "handler" not in asked.named:
            asked.set("handler", pool.settings.handler)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        job = Job(asked.properties(), asked.content, exchange.gone, future)
        await pool.submit(job)
        try:
            answer = await future
            await (self._stream(exchange, job, answer) if answer.streamed else self._unary(exchange, answer))
        except ClientGone as exc:
            raise Hangup from exc
        finally:
            job.abandon()

    async def _unary(self, exchange: Exchange, answer: Answer) -> None:
        headers = answers.handler_headers(answer.properties)
        await exchange.reply(Reply(answer.code, headers, answer.body(), _reason(answer)))

    async def _stream(self, exchange: Exchange, job: Job, answer: Answer) -> None:
        """The head waits for the first chunk; one that is also the last makes an ordinary answer."""
        headers = answers.handler_headers(answer.properties)
        started = False
        while True:
            frame = await self._frame(job)
            if frame.last and not started:
                await exchange.reply(Reply(answer.code, headers, frame.blob, _reason(answer)))
                return
            if not started and frame.blob:
                await exchange.start_stream(
                    answer.code, _reason(answer) or answers.reason_of(answer.code), headers
                )
                started = True
            await exchange.send_chunk(frame.blob)
            if frame.last:
                await exchange.end_stream()
                return

    async def _frame(self, job: Job) -> Frame:
        try:
            frame = await asyncio.wait_for(job.frames.get(), self._settings.chunked_read_timeout)
        except TimeoutError as exc:
            self._log.warn(
                "chunked_read_timeout: no further piece of a stream",
                seconds=self._settings.chunked_read_timeout,
            )
            raise Hangup from exc
        if frame.lost:
            raise Hangup
        return frame


def _reason(answer: Answer) -> str:
    return "" if answer.code == 200 else answer.message
