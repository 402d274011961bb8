"""Streamed responses as OpenAI's server-sent events. Lines in OpenAI's form pass without being parsed. Pure."""

from __future__ import annotations

import json
import re
from collections import deque
from typing import Any, Final

from lmi_deploy.domain.inference_http import Chunk, ResponseHead
from lmi_deploy.engines.engine import Decoder
from lmi_deploy.inference_client.line_splitting import EventDecoder, LineDecoder
from lmi_deploy.proxy.openai_error import OpenAIError, parse_json, server_error
from lmi_deploy.proxy.stream_lines import (
    DONE,
    ChunkWriter,
    CompletionKind,
    ResponseIdentity,
    TokenUsage,
    finish_of,
    read_stream_line,
    usage_of,
)

_TAIL = 3
"""Lines at the end of a stream that may hold its finish reason and its usage."""
_MODEL: Final = re.compile(rb'\{[^{}\[\]\\]*?("model":( ?)"[^"\\{}\[\]]*")')
"""The field in a line as most servers write it: before any nested value, without escapes."""


class OpenAIStream:
    """Of a handler that writes OpenAI's chunks; what is not in that form is put into it.

    `failure` is set once the server has said why the stream broke; what `feed` returned before it is still sent.
    """

    def __init__(self, kind: CompletionKind, identity: ResponseIdentity, head: ResponseHead) -> None:
        content_type = head.header("content-type").lower()
        self._lines = EventDecoder() if "event-stream" in content_type else LineDecoder()
        self._is_whole = content_type.partition(";")[0].strip() == "application/json"
        self._whole = bytearray()
        self._writer = ChunkWriter(kind, identity)
        self._kind = kind
        self._model = identity.model
        self._tail: deque[bytes] = deque(maxlen=_TAIL)
        self._renamed: tuple[bytes, bytes] | None = None
        self._finish = ""
        self._converted = False
        self.usage: TokenUsage | None = None
        self.failure: OpenAIError | None = None

    def feed(self, data: bytes) -> bytes:
        if self._is_whole:
            self._whole += data
            return b""
        return self._events(self._lines.feed(data))

    def close(self) -> bytes:
        """The end of the stream; `failure` if it ended before the response did."""
        events = self._whole_body() if self._is_whole else self._events(self._lines.close())
        if self.failure is not None:
            return events
        for line in self._tail:
            value = parse_json(line)
            self._finish = finish_of(value) or self._finish
            self.usage = usage_of(value) or self.usage
        if self._converted:
            events += self._writer.finish(self._finish)
        elif not self._finish:
            self.failure = OpenAIError(
                502, "the model's stream ended without a finish reason", code="stream_broken"
            )
            return events
        return events + DONE

    def _events(self, lines: list[bytes]) -> bytes:
        events: list[bytes] = []
        for line in lines:
            if b'"choices"' in line and line.startswith(b"{"):
                if self._renamed is None:
                    self._renamed = model_field(line, self._model)
                self._tail.append(line)
                events += (b"data: ", line.replace(*self._renamed, 1), b"\n\n")
            elif line != b"[DONE]":
                try:
                    events.append(self._other(line))
                except OpenAIError as error:
                    self.failure = error
                    break
        return b"".join(events)

    def _other(self, line: bytes) -> bytes:
        value, chunk = read_stream_line(line)
        self.usage = usage_of(value) or self.usage
        self._finish = chunk.finish or self._finish
        if not chunk.text:
            return b""
        self._converted = True
        return self._writer.text(chunk.text)

    def _whole_body(self) -> bytes:
        """The handler did not stream: one event has all of it, or it wrote lines under another name."""
        value = parse_json(bytes(self._whole))
        if value is None:
            return self._events([line for line in bytes(self._whole).splitlines() if line.strip()])
        choices = value.get("choices") if isinstance(value, dict) else None
        if not isinstance(choices, list):
            return self._events([json.dumps(value).encode()])
        self.usage, self._finish, self._converted = usage_of(value), finish_of(value), True
        first: Any = choices[0] if choices and isinstance(choices[0], dict) else {}
        if self._kind == "chat":
            return self._writer.message(first.get("message") or {})
        return self._writer.text(str(first.get("text") or ""))


class DecodedStream:
    """Of a handler with a form of its own, which the engine's decoder reads."""

    def __init__(self, identity: ResponseIdentity, decoder: Decoder) -> None:
        self._writer = ChunkWriter("text", identity)
        self._decoder = decoder
        self._finish = ""
        self._tokens = 0
        self.failure: OpenAIError | None = None

    @property
    def usage(self) -> TokenUsage | None:
        return TokenUsage(None, self._tokens) if self._tokens else None

    def feed(self, data: bytes) -> bytes:
        return self._events(self._decoder.feed(data))

    def close(self) -> bytes:
        events = self._events(self._decoder.close())
        if self.failure is not None:
            return events
        return events + self._writer.finish(self._finish) + DONE

    def _events(self, chunks: list[Chunk]) -> bytes:
        events = []
        for chunk in chunks:
            if chunk.error:
                self.failure = server_error(502, chunk.error.encode())
                break
            self._tokens += chunk.tokens
            self._finish = chunk.finish or self._finish
            if chunk.text:
                events.append(self._writer.text(chunk.text))
        return b"".join(events)


def model_field(line: bytes, model: str) -> tuple[bytes, bytes]:
    """The bytes of the `model` of a line, and those that name the deployment in its place.

    In a JSON text, `"model":` can only be a key: within a string the quotes are escaped.
    """
    if (plain := _MODEL.match(line)) is not None:
        return plain[1], b'"model":' + plain[2] + json.dumps(model).encode()
    value = parse_json(line)
    own = value.get("model") if isinstance(value, dict) else None
    wanted = json.dumps(model).encode()
    for text in (json.dumps(own), json.dumps(own, ensure_ascii=False)):
        for separator in (b": ", b":"):
            found = b'"model"' + separator + text.encode()
            if "model" in (value or {}) and found in line:
                return found, b'"model"' + separator + wanted
    return b"\0", b"\0"
