"""Results that are fetched later: `x-synchronous: false` gives a token, `x-starting-token` asks with it."""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field

from lmi_deploy.server import answers
from lmi_deploy.server.answers import Reply
from lmi_deploy.server.jobs import Job
from lmi_deploy.server.log import Log
from lmi_deploy.server.refusals import Refusal
from lmi_deploy.server.wire import Answer, Pair

MOST_KEPT = 1000
MOST_BYTES = 256 * 1024 * 1024
_PACKAGE = "ai.djl.serving.wlm.util"
_PACKAGES = {"TranslateException": "ai.djl.translate"}


@dataclass(slots=True, eq=False)
class Result:
    """A job whose answer is collected; `size` is what came so far."""

    token: str
    job: Job
    size: int = 0
    task: asyncio.Task[Answer] = field(init=False, repr=False)


class Results:
    """The last results by their token. The oldest are given up when they are too many or, together, too large."""

    def __init__(self, log: Log, *, most_kept: int = MOST_KEPT, most_bytes: int = MOST_BYTES) -> None:
        self._log = log
        self._most_kept = most_kept
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, Result] = OrderedDict()
        self._bytes = 0

    def keep(self, job: Job) -> Reply:
        """The answer to the one who submitted: a token, and no body."""
        result = Result(str(uuid.uuid4()), job)
        job.gone = lambda: job.abandoned
        result.task = asyncio.create_task(self._collect(result))
        self._kept[result.token] = result
        while len(self._kept) > self._most_kept:
            self._forget_oldest()
        return Reply(200, _tokens(result.token, result.token))

    def poll(self, token: str) -> Reply:
        """202 while the result is not there; `Refusal` for a token that nobody got, or what the job ended with."""
        result = self._kept.get(token)
        if result is None:
            raise Refusal(400, "BadRequestException", f"Invalid x-starting-token: {token}")
        if not result.task.done():
            return Reply(202, _tokens(token, token), reason="The model result is not yet available")
        answer = _settled(result.task)
        headers = answers.handler_headers([*answer.properties, *_tokens(token, f"{token}0")])
        return Reply(answer.code, headers, answer.body(), answers.reason_told(answer))

    async def _collect(self, result: Result) -> Answer:
        job = result.job
        answer = await job.answer
        if not answer.streamed:
            self._grew(result, sum(len(blob) for _, blob in answer.content))
            return answer
        parts: list[bytes] = []
        while True:
            frame = await job.frames.get()
            parts.append(frame.blob)
            self._grew(result, len(frame.blob))
            if frame.last or frame.lost or job.abandoned:
                return Answer(answer.code, answer.message, answer.properties, ((None, b"".join(parts)),))

    def _grew(self, result: Result, size: int) -> None:
        if result.job.abandoned:
            return
        result.size += size
        self._bytes += size
        while self._bytes > self._most_bytes:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        token, result = self._kept.popitem(last=False)
        self._bytes -= result.size
        # Abandoned, not only forgotten: a worker must not wait for a stream to be read that nobody reads.
        result.job.abandon()
        result.task.cancel()
        limits = f"{self._most_kept} results, {self._most_bytes} bytes"
        self._log.warn("an asynchronous result was given up", token=token, size=result.size, limits=limits)


def _settled(task: asyncio.Task[Answer]) -> Answer:
    """A refusal is kept as an answer of 500 whose reason tells it."""
    try:
        return task.result()
    except Refusal as refusal:
        return Answer(500, f"{_PACKAGES.get(refusal.kind, _PACKAGE)}.{refusal.kind}: {refusal}")


def _tokens(attribute: str, following: str) -> list[Pair]:
    return [("X-Amzn-SageMaker-Custom-Attributes", f"x-next-token={attribute}"), ("x-next-token", following)]
