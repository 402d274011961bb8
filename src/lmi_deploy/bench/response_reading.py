"""From the bytes of a response, and the times at which they arrived, to a record. Pure: it runs after the request, so
that no time stamp waits for JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lmi_deploy.domain.inference_http import Chunk, ResponseHead
from lmi_deploy.engines.engine import Decoder
from lmi_deploy.inference_client.eventstream import DamagedStream, EventStreamDecoder, StreamMessage

EVENT_STREAM: Final = "application/vnd.amazon.eventstream"
EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
LONGEST_DETAIL: Final = 500
_INPUT_HEADERS: Final = ("x-prompt-tokens", "x-compute-tokens")
"""Of TGI and of TEI (router/src/server.rs, router/src/http/server.rs), whose bodies may have no count."""
_STEP: Final = 8
"""Parts that are read before the event loop may do something else."""


@dataclass(slots=True, kw_only=True)
class RawResponse:
    """`parts`: pieces of the body, each with the time when it arrived. `error`: why there is none, or no more."""

    scheduled: float
    sent: float = 0.0
    end: float = 0.0
    status: int = 0
    headers: Sequence[tuple[bytes, bytes]] = ()
    parts: Sequence[tuple[float, bytes]] = ()
    error: str = ""
    detail: str = ""

    def header(self, name: str) -> str:
        """By its name in lower case."""
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == wanted), "")

    @property
    def has_failed(self) -> bool:
        """What the status and the connection say; a body may tell of another failure."""
        return bool(self.error) or not 200 <= self.status < 300

    @property
    def head(self) -> ResponseHead:
        kind = self.header("content-type")
        if kind.startswith(EVENT_STREAM):
            kind = self.header("x-amzn-sagemaker-content-type")
        return ResponseHead(status=self.status, reason="", headers=(("content-type", kind),))


@dataclass(slots=True, kw_only=True)
class ReadResponse:
    """`finish` is empty if the response did not say why it ended."""

    arrivals: list[float] = field(default_factory=list)
    tokens: int = 0
    input_tokens: int = 0
    finish: str = ""
    error: str = ""
    detail: str = ""
    truncated: bool = False
    is_complete: bool = False

    def take(self, at: float, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            self.tokens += chunk.tokens
            self.input_tokens = chunk.input_tokens or self.input_tokens
            self.finish = chunk.finish or self.finish
            if chunk.error and not self.error:
                self.error, self.detail = "stream_error", chunk.error[:LONGEST_DETAIL]
        if any(chunk.text for chunk in chunks):
            self.arrivals.append(at)


def read_response(
    raw: RawResponse, decoder: Callable[[ResponseHead], Decoder], *, is_stream: bool
) -> Iterator[ReadResponse]:
    """Yields what it has so far, and at last all of it: a long response is read in steps."""
    found = ReadResponse()
    if raw.status >= 300 or not raw.status:
        found.error, found.detail = _failure(raw)
        found.is_complete = True
        yield found
        return
    events = EventStreamDecoder() if raw.header("content-type").startswith(EVENT_STREAM) else None
    reading = decoder(raw.head)
    try:
        for number, (at, data) in enumerate(raw.parts):
            found.take(at, reading.feed(_payloads(events, data) if events else data))
            if number % _STEP == _STEP - 1:
                yield found
        if events and not raw.error:
            events.close()
        found.take(raw.end, reading.close())
    except (DamagedStream, _StreamException) as broken:
        found.error = broken.code if isinstance(broken, _StreamException) else "damaged_stream"
        found.detail = str(broken)[:LONGEST_DETAIL]
        found.truncated = True
    if raw.error:
        # The last line was cut: the connection is the cause, and not what is left of the JSON.
        found.error, found.detail = raw.error, raw.detail[:LONGEST_DETAIL]
        found.truncated = is_stream
    elif not raw.parts and not found.error:
        found.error, found.detail = "empty", "the response has no body"
    if not is_stream:
        found.arrivals = []
    found.input_tokens = found.input_tokens or _input_header(raw)
    found.is_complete = True
    yield found


def _input_header(raw: RawResponse) -> int:
    given = next(filter(None, map(raw.header, _INPUT_HEADERS)), "")
    return int(given) if given.isascii() and given.isdigit() else 0


class _StreamException(Exception):
    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def _payloads(events: EventStreamDecoder, data: bytes) -> bytes:
    return b"".join(_payload(message) for message in events.feed(data))


def _payload(message: StreamMessage) -> bytes:
    """The exceptions of InvokeEndpointWithResponseStream are messages of their own."""
    headers = message.headers
    if headers.get(":message-type", "event") == "event":
        return message.payload if headers.get(":event-type") == "PayloadPart" else b""
    code = headers.get(":exception-type") or headers.get(":error-code") or "stream_error"
    raise _StreamException(code, message.payload.decode("utf-8", "replace"))


def _failure(raw: RawResponse) -> tuple[str, str]:
    """The class of an error, as the service names it: ThrottlingException, ModelError, else the status."""
    if raw.error:
        return raw.error, raw.detail[:LONGEST_DETAIL]
    body = b"".join(data for _, data in raw.parts)
    text = body.decode("utf-8", "replace")[:LONGEST_DETAIL]
    code = raw.header("x-amzn-errortype") or _field(body, "__type")
    code = code.partition(":")[0].rpartition("#")[2]
    return code or f"http_{raw.status}", text


def _field(body: bytes, name: str) -> str:
    try:
        value: Any = json.loads(body)
    except ValueError:
        return ""
    return str(value.get(name) or "") if isinstance(value, dict) else ""


def is_expired(raw: RawResponse) -> bool:
    """The credentials have expired: they are read again, and the request is sent again."""
    return raw.status in (400, 403) and _failure(raw)[0] in EXPIRED
