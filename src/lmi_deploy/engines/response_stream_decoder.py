"""Decode responses of DJL's handlers as they arrive: JSON in one piece, JSON lines, server-sent events,
text, errors.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lmi_deploy.domain.inference_http import Chunk, ResponseHead

ReadLine = Callable[[Any], Chunk]
LONGEST_ERROR = 2000
_NOTHING = Chunk()


class TextDecoder:
    """Bytes to text without delay; only an incomplete character waits for the rest."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> list[Chunk]:
        return _printable(self._decoder.decode(data))

    def close(self) -> list[Chunk]:
        return _printable(self._decoder.decode(b"", final=True))


class _BodyDecoder:
    """Collects a body that is decoded as a whole, at its end."""

    def __init__(self) -> None:
        self._body = bytearray()

    def feed(self, data: bytes) -> list[Chunk]:
        self._body += data
        return []


class ErrorDecoder(_BodyDecoder):
    """The body of an error response, as one error."""

    def __init__(self, head: ResponseHead) -> None:
        super().__init__()
        self._head = head

    def close(self) -> list[Chunk]:
        text = self._body.decode("utf-8", "replace")
        output = error_text(_parsed(text)) or text.strip()[:LONGEST_ERROR] or self._head.reason
        return [Chunk(error=f"{self._head.status}: {output}")]


class LinesDecoder:
    """JSON lines. One that is not JSON is the server's own word on why the stream broke."""

    def __init__(self, read: ReadLine) -> None:
        self._read = read
        self._rest = b""
        self._tokens = 0

    def feed(self, data: bytes) -> list[Chunk]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [chunk for line in lines if line.strip() for chunk in self._line(line)]

    def close(self) -> list[Chunk]:
        rest, self._rest = self._rest, b""
        return self._line(rest) if rest.strip() else []

    def _line(self, line: bytes) -> list[Chunk]:
        text = line.decode("utf-8", "replace")
        value = _parsed(text)
        if value is None:
            return [Chunk(error=text.strip()[:LONGEST_ERROR])]
        output = error_text(value)
        chunk = Chunk(error=output) if output else self._read(value)
        if not chunk.error:
            chunk = self._counted(value, chunk)
        return [] if chunk == _NOTHING else [chunk]

    def _counted(self, value: Any, chunk: Chunk) -> Chunk:
        """A chunk shows text and may be any number of tokens; the usage at the end corrects the sum."""
        used = _used(value)
        tokens = chunk.tokens if used is None else used - self._tokens
        self._tokens += tokens
        given = input_tokens(value)
        if tokens == chunk.tokens and not given:
            return chunk
        return Chunk(text=chunk.text, tokens=tokens, input_tokens=given, finish=chunk.finish)


class EventsDecoder(LinesDecoder):
    """Server-sent events, as a formatter may write them: their data, and lines that are no event, are read as JSON
    lines.
    """

    def _line(self, line: bytes) -> list[Chunk]:
        field, _, value = line.partition(b":")
        if field in (b"", b"event", b"id", b"retry") or value.strip() == b"[DONE]":
            return []
        return super()._line(value.strip() if field == b"data" else line)


class JsonDecoder(_BodyDecoder):
    """One JSON value, read at the end. Lines under a unary content type (grouped streams) are read as lines."""

    def __init__(self, read: ReadLine, lines: LinesDecoder) -> None:
        super().__init__()
        self._read = read
        self._lines = lines

    def close(self) -> list[Chunk]:
        text = self._body.decode("utf-8", "replace")
        if not text.strip():
            return []
        value = _parsed(text)
        if value is not None:
            output = error_text(value)
            return [Chunk(error=output) if output else _with_input(value, self._read(value))]
        parts = [line for line in text.splitlines() if line.strip()]
        if len(parts) > 1 and all(_parsed(line) is not None for line in parts):
            return self._lines.feed(bytes(self._body)) + self._lines.close()
        return [Chunk(text=text)]


def response_decoder(
    head: ResponseHead, *, full: ReadLine, line: ReadLine
) -> ErrorDecoder | LinesDecoder | JsonDecoder:
    if head.status >= 400:
        return ErrorDecoder(head)
    kind = head.header("content-type").lower()
    if "event-stream" in kind:
        return EventsDecoder(line)
    lines = LinesDecoder(line)
    return lines if "jsonlines" in kind else JsonDecoder(full, lines)


def read_json(value: Any) -> Chunk:
    """OpenAI's chat.completion and text_completion, LMI's generated_text (or a list of them), the `outputs` of a
    user's own handler, or any JSON.
    """
    if isinstance(value, list) and value and all(_generated(each) is not None for each in value):
        return Chunk(text="\n".join(str(_generated(each)) for each in value))
    if _generated(value) is not None:
        details = value.get("details") or {}
        finish = str(details.get("finish_reason") or "")
        return Chunk(text=value["generated_text"], tokens=details.get("generated_tokens") or 0, finish=finish)
    if isinstance(value, dict) and value.keys() == {"outputs"}:
        return Chunk(text=_texts(value["outputs"]))
    choices = _choices(value)
    if choices:
        texts = [
            str((each.get("message") or {}).get("content") or each.get("text") or "") for each in choices
        ]
        finish = str(choices[0].get("finish_reason") or "")
        return Chunk(text="\n".join(texts), tokens=_used(value) or 0, finish=finish)
    return Chunk(text=json.dumps(value, ensure_ascii=False))


def read_line(value: Any) -> Chunk:
    """OpenAI's chunks, LMI's token lines, and the `outputs` lines of DJL's default formatter."""
    choices = _choices(value)
    if choices:
        first = choices[0]
        text = str((first.get("delta") or {}).get("content") or first.get("text") or "")
        return Chunk(text=text, tokens=1 if text else 0, finish=str(first.get("finish_reason") or ""))
    if not isinstance(value, dict):
        return Chunk(text=json.dumps(value, ensure_ascii=False))
    if isinstance(value.get("token"), dict):
        finish = str((value.get("details") or {}).get("finish_reason") or "")
        return Chunk(text=str(value["token"].get("text") or ""), tokens=1, finish=finish)
    if "outputs" in value:
        text = (
            "".join(map(str, value["outputs"]))
            if isinstance(value["outputs"], list)
            else str(value["outputs"])
        )
        return Chunk(text=text, tokens=1)
    return Chunk() if "choices" in value else Chunk(text=json.dumps(value, ensure_ascii=False))


def error_text(value: Any) -> str:
    """The error in a body (OpenAI's form, a handler's, the server's), or an empty string."""
    if not isinstance(value, dict):
        return ""
    error = value.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error)
    if error:
        return str(error)
    return str(value.get("message") or "") if "code" in value and "type" in value else ""


def input_tokens(value: Any) -> int:
    """Tokens of the prompt by the server's count, 0 if it has none: `usage` of OpenAI's API, or the `prefill` of DJL's
    and TGI's details (of each answer of a batch).
    """
    if isinstance(value, list):
        counts = [input_tokens(each) if isinstance(each, dict) else 0 for each in value]
        return sum(counts) if all(counts) else 0
    if not isinstance(value, dict):
        return 0
    usage, details = value.get("usage"), value.get("details")
    used = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    prefill = details.get("prefill") if isinstance(details, dict) else None
    if isinstance(used, int):
        return used
    return len(prefill) if isinstance(prefill, list) else 0


def _with_input(value: Any, chunk: Chunk) -> Chunk:
    found = input_tokens(value)
    return replace(chunk, input_tokens=found) if found else chunk


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _generated(value: Any) -> str | None:
    text = value.get("generated_text") if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


def _texts(value: Any) -> str:
    """A text, or several, one a line; anything else as JSON."""
    texts = value if isinstance(value, list) else [value]
    if all(isinstance(each, str) for each in texts):
        return "\n".join(texts)
    return json.dumps(value, ensure_ascii=False)


def _choices(value: Any) -> list[dict[str, Any]]:
    choices = value.get("choices") if isinstance(value, dict) else None
    return [each for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []


def _used(value: Any) -> int | None:
    usage = value.get("usage") if isinstance(value, dict) else None
    used = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return used if isinstance(used, int) else None


def _printable(text: str) -> list[Chunk]:
    return [Chunk(text=text)] if text else []
