"""Results that are fetched later: `x-synchronous: false` gives a token, `x-starting-token` asks with it."""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict

from lmi_deploy.server import answers
from lmi_deploy.server.answers import Reply
from lmi_deploy.server.jobs import Job
from lmi_deploy.server.refusals import Refusal
from lmi_deploy.server.wire import Answer, Pair

MOST_KEPT = 1000
_PACKAGE = "ai.djl.serving.wlm.util"
_PACKAGES = {"TranslateException": "ai.djl.translate"}


class Results:
    """The last results by their token; the oldest are forgotten."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, asyncio.Task[Answer]] = OrderedDict()

    def keep(self, job: Job) -> Reply:
        """The answer to the one who submitted: a token, and no body."""
        token = str(uuid.uuid4())
        self._kept[token] = asyncio.create_task(_whole(job))
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)[1].cancel()
        return Reply(200, _tokens(token, token))

    def poll(self, token: str) -> Reply:
        """202 while the result is not there; `Refusal` for a token that nobody got, or what the job ended with."""
        task = self._kept.get(token)
        if task is None:
            raise Refusal(400, "BadRequestException", f"Invalid x-starting-token: {token}")
        if not task.done():
            return Reply(202, _tokens(token, token), reason="The model result is not yet available")
        answer = _settled(task)
        headers = answers.handler_headers([*answer.properties, *_tokens(token, f"{token}0")])
        return Reply(answer.code, headers, answer.body(), answers.reason_told(answer))


async def _whole(job: Job) -> Answer:
    answer = await job.answer
    if not answer.streamed:
        return answer
    parts: list[bytes] = []
    while True:
        frame = await job.frames.get()
        parts.append(frame.blob)
        if frame.last or frame.lost:
            return Answer(answer.code, answer.message, answer.properties, ((None, b"".join(parts)),))


def _settled(task: asyncio.Task[Answer]) -> Answer:
    """A refusal is kept as an answer of 500 whose reason tells it."""
    try:
        return task.result()
    except Refusal as refusal:
        return Answer(500, f"{_PACKAGES.get(refusal.kind, _PACKAGE)}.{refusal.kind}: {refusal}")


def _tokens(attribute: str, following: str) -> list[Pair]:
    return [("X-Amzn-SageMaker-Custom-Attributes", f"x-next-token={attribute}"), ("x-next-token", following)]
