"""The requests of a measurement, from a file: prompts, JSON lines, conversations in ShareGPT's form, data capture of
SageMaker. Pure. A line that cannot be read is named by its number.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.domain.inference_http import ImageFile
from lmi_deploy.errors import UsageRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """A prompt, or a whole body. `at`: its second in a trace."""

    prompt: str = ""
    body: bytes | None = None
    content_type: str = "application/json"
    images: tuple[ImageFile, ...] = ()
    """Of a prompt; a body has its own."""
    output_tokens: int | None = None
    """The longest answer; with exact lengths the only one."""
    at: float | None = None
    items: int = 1
    """What the body is a batch of."""
    input_tokens: int | None = None
    """Of all prompts in it, if the model's tokenizer counted them."""
    asked_input_tokens: int | None = None
    """For which a synthetic prompt was made; without a tokenizer it has about as many."""


_LINE_FORM: Final = '{"prompt": "..."}, {"messages": [...]} or {"body": {...}}'
_FIELDS: Final = frozenset({"prompt", "body", "messages", "output_tokens", "at"})


class _BadLine(ValueError):
    """Why a line is no request."""


def read_requests(text: str, where: str, form: str = "auto") -> tuple[BenchRequest, ...]:
    """UsageRefused with file and line. Without `form` it is recognized by the file's beginning."""
    chosen = _recognized(text) if form == "auto" else form
    found = tuple(_FORMS[chosen](text, where))
    if not found:
        raise UsageRefused(f"{where}: no request in it (read as {chosen})", hint="name a file with prompts")
    return found


def _recognized(text: str) -> str:
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("["):
        return "sharegpt"
    if start.startswith("{"):
        return "data-capture" if '"captureData"' in start.partition("\n")[0] else "jsonl"
    return "text"


def _text(text: str, where: str) -> Iterator[BenchRequest]:
    for line in text.splitlines():
        if line.strip():
            yield BenchRequest(prompt=line.strip())


def _lines(
    text: str, where: str, read: Callable[[Mapping[str, Any]], BenchRequest]
) -> Iterator[BenchRequest]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if not isinstance(value, dict):
                raise _BadLine("not a JSON object")
            yield read(value)
        except ValueError as reason:
            why = reason if isinstance(reason, _BadLine) else f"not JSON ({reason})"
            hint = f"correct the line, or remove it; a line has the form {_LINE_FORM}"
            raise UsageRefused(f"{where}:{number}: {why}", hint=hint) from None


def _json_lines(text: str, where: str) -> Iterator[BenchRequest]:
    return _lines(text, where, _json_line)


def _json_line(value: Mapping[str, Any]) -> BenchRequest:
    unknown = sorted({*value} - _FIELDS)
    if unknown:
        raise _BadLine(f"unknown key {unknown[0]}: possible are {', '.join(sorted(_FIELDS))}")
    kinds = [name for name in ("prompt", "messages", "body") if name in value]
    if len(kinds) != 1:
        raise _BadLine(f"{' and '.join(kinds) or 'none'} of prompt, messages, body: one is needed")
    tokens, at = value.get("output_tokens"), value.get("at")
    if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1):
        raise _BadLine(f"output_tokens: {tokens!r} is not a number of at least 1")
    if at is not None and (not isinstance(at, (int, float)) or isinstance(at, bool) or not 0 <= at < 1e9):
        raise _BadLine(f"at: {at!r} is not a number of seconds")
    if kinds == ["prompt"]:
        if not isinstance(value["prompt"], str) or not value["prompt"].strip():
            raise _BadLine("prompt: not a text, or an empty one")
        return BenchRequest(prompt=value["prompt"], output_tokens=tokens, at=at)
    if tokens is not None:
        raise _BadLine(f"output_tokens has no effect on {kinds[0]}: set it in the body")
    whole = {"messages": value["messages"]} if kinds == ["messages"] else value["body"]
    body = whole.encode() if isinstance(whole, str) else json.dumps(whole, ensure_ascii=False).encode()
    return BenchRequest(body=body, at=at)


def _sharegpt(text: str, where: str) -> Iterator[BenchRequest]:
    """A JSON list of conversations: the first turn is the prompt."""
    try:
        rows = json.loads(text)
    except ValueError as reason:
        raise UsageRefused(f"{where}: not JSON ({reason})", hint="name a file in ShareGPT's form") from None
    for number, row in enumerate(rows if isinstance(rows, list) else [rows], 1):
        turns = row.get("conversations") if isinstance(row, dict) else None
        first = turns[0] if isinstance(turns, list) and turns else None
        if first is None and isinstance(turns, list):
            continue  # the published file has empty conversations
        prompt = first.get("value") if isinstance(first, dict) else None
        if not isinstance(prompt, str):
            hint = 'an element has the form {"conversations": [{"from": "human", "value": "..."}]}'
            raise UsageRefused(f"{where}: element {number} is no conversation", hint=hint)
        if prompt.strip():
            yield BenchRequest(prompt=prompt)


def _captured_inputs(text: str, where: str) -> Iterator[BenchRequest]:
    """What an endpoint with DataCaptureConfig stores: an `InvokeEndpoint` a line, its input as text, JSON or base64."""
    return _lines(text, where, _captured)


def _captured(value: Mapping[str, Any]) -> BenchRequest:
    captured = value.get("captureData")
    given = captured.get("endpointInput") if isinstance(captured, dict) else None
    if not isinstance(given, dict) or not isinstance(given.get("data"), str):
        raise _BadLine("no captureData.endpointInput.data: capture the input, too (CaptureMode: Input)")
    kind = str(given.get("observedContentType") or "application/json")
    if given.get("encoding") != "BASE64":
        return BenchRequest(body=given["data"].encode(), content_type=kind)
    try:
        return BenchRequest(body=base64.b64decode(given["data"], validate=True), content_type=kind)
    except binascii.Error as reason:
        raise _BadLine(f"endpointInput.data: not base64 ({reason})") from None


_FORMS: Final[Mapping[str, Callable[[str, str], Iterator[BenchRequest]]]] = {
    "text": _text,
    "jsonl": _json_lines,
    "sharegpt": _sharegpt,
    "data-capture": _captured_inputs,
}
FORMS: Final = ("auto", *_FORMS)
