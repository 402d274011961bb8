"""Results that are fetched later: `x-synchronous: false` returns a token, `x-starting-token` polls with it.

After `BaseCacheEngine` and `MemoryCacheEngine` of DJLServing (deepjavalibrary/djl-serving, serving/.../cache): a poll
returns the pieces received so far, and a token for the pieces after them.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field

from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http import responses
from lmi_deploy.server.http.responses import Response
from lmi_deploy.server.log import Log
from lmi_deploy.server.workers.batch_queue import QueuedRequest
from lmi_deploy.server.workers.djl_protocol import Pair

MAX_RESULTS = 1000
MOST_BYTES = 256 * 1024 * 1024
_PACKAGE = "ai.djl.serving.wlm.util"
_PACKAGES = {"TranslateException": "ai.djl.translate"}
_PENDING = 202
_TOKEN_LENGTH = 36  # followed by the number of pieces already fetched


@dataclass(slots=True, eq=False)
class Result:
    """A job whose response is collected; `size` is the number of bytes so far."""

    token: str
    job: QueuedRequest
    size: int = 0
    code: int = _PENDING
    message: str = "The model result is not yet available"
    properties: list[Pair] = field(default_factory=list)
    whole: bytes | None = field(default=None, repr=False)
    chunks: list[bytes] = field(default_factory=list, repr=False)
    """Of a stream, in place of `whole`."""
    last: bool = False
    """Whether the last piece is among them."""
    streaming: bool = False
    """Whether the head is sent before the body begins; the code of a later piece then cannot change it."""
    task: asyncio.Task[None] = field(init=False, repr=False)

    def receipt(self) -> Response:
        """The response to the submitting client: a token, and no body."""
        return Response(200, _tokens(self.token, self.token))

    def head(self, code: int, message: str, properties: list[Pair]) -> None:
        self.code, self.message, self.properties = code, message, properties

    def stream(self) -> None:
        """For a poll, the response of an asynchronous handler has its head as soon as the request is sent."""
        if not self.job.response.done():
            self.streaming = True
            self.head(200, "OK", [])

    def page(self, start: int, limit: int | None) -> Response:
        """At most `limit` pieces after the first `start`; with the head, if it starts with the first."""
        code, message, properties = (
            (self.code, self.message, self.properties) if start == 0 else (200, "OK", [])
        )
        first = [self.whole] if start == 0 and self.whole is not None else []
        end = len(self.chunks)
        if limit is not None:
            end = max(min(start + limit - len(first), end), 0)
        used = self.chunks[start : max(end, start)]
        ended = self.last and end == len(self.chunks)
        if not ended and not any(key.lower() == "x-next-token" for key, _ in properties):
            # Stored with the head, as in DJLServing: a later poll for the head gets the same token.
            properties += _tokens(self.token, f"{self.token}{end}")
        reason = "" if code == 200 else message
        return Response(code, responses.handler_headers(properties), b"".join([*first, *used]), reason)


class Results:
    """The last results by their token. The oldest are given up when they are too many or, together, too large."""

    def __init__(self, log: Log, *, max_results: int = MAX_RESULTS, most_bytes: int = MOST_BYTES) -> None:
        self._log = log
        self._max_results = max_results
        self._max_bytes = most_bytes
        self._results: OrderedDict[str, Result] = OrderedDict()
        self._bytes = 0

    def add(self, job: QueuedRequest) -> Result:
        """Collect the job's response from now on."""
        result = Result(str(uuid.uuid4()), job)
        result.properties = _tokens(result.token, result.token)
        job.is_disconnected = lambda: job.abandoned
        result.task = asyncio.create_task(self._collect(result))
        self._results[result.token] = result
        while len(self._results) > self._max_results:
            self._forget_oldest()
        return result

    def poll(self, token: str, limit: int | None = None) -> Response:
        """The pieces so far, 202 before the first one; `ErrorReply` for an unknown token."""
        try:
            start = int(token[_TOKEN_LENGTH:] or 0)
        except ValueError as exc:
            raise ErrorReply(400, "BadRequestException", "Failed to lookup cache element") from exc
        result = self._results.get(token[:_TOKEN_LENGTH])
        if result is None or start < 0:
            raise ErrorReply(400, "BadRequestException", f"Invalid x-starting-token: {token}")
        return result.page(start, limit)

    async def _collect(self, result: Result) -> None:
        job = result.job
        try:
            response = await job.response
        except ErrorReply as refusal:
            kind = f"{_PACKAGES.get(refusal.kind, _PACKAGE)}.{refusal.kind}"
            result.head(500, f"{kind}: {refusal}", [])
            return
        if not response.streamed:
            result.head(response.code, response.message, list(response.properties))
            result.whole = response.body() if response.content else None
            self._grew(result, sum(len(blob) for _, blob in response.content))
            return
        if result.streaming:
            reported = {key.lower() for key, _ in response.properties}
            kept = [pair for pair in result.properties if pair[0].lower() not in reported]
            result.properties = [*response.properties, *kept]
        else:
            result.head(response.code, response.message, list(response.properties))
        while not result.last:
            frame = await job.frames.get()
            if frame.lost or job.abandoned:
                return
            result.chunks.append(frame.blob)
            result.last = frame.last
            self._grew(result, len(frame.blob))

    def _grew(self, result: Result, size: int) -> None:
        if result.job.abandoned:
            return
        result.size += size
        self._bytes += size
        while self._bytes > self._max_bytes:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        token, result = self._results.popitem(last=False)
        self._bytes -= result.size
        # Abandoned, not only forgotten: otherwise a worker waits for a reader of a stream that has no reader.
        result.job.abandon()
        result.task.cancel()
        limits = f"{self._max_results} results, {self._max_bytes} bytes"
        self._log.warn("an asynchronous result was dropped", token=token, size=result.size, limits=limits)


def _tokens(attribute: str, following: str) -> list[Pair]:
    return [("X-Amzn-SageMaker-Custom-Attributes", f"x-next-token={attribute}"), ("x-next-token", following)]
