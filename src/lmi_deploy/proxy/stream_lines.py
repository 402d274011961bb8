"""What the lines of a streamed response say, whatever the handler's form: for those that cannot be passed on as they
are. Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from lmi_deploy.domain.inference_http import Chunk
from lmi_deploy.engines.response_stream_decoder import LONGEST_ERROR, error_text, read_line
from lmi_deploy.proxy.openai_error import OpenAIError, parse_json, server_error

CompletionKind = Literal["chat", "text"]
"""Of /v1/chat/completions, and of /v1/completions."""
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseIdentity:
    """What every part of one response repeats: the name of its model, its time, and a key that no other one has."""

    model: str
    created: int
    key: str


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """As the server counted them. `prompt`: None if it did not; then no response has a usage, whose total would be
    wrong.
    """

    prompt: int | None
    completion: int


def usage_of(value: Any) -> TokenUsage | None:
    """Of a body or a line that has OpenAI's `usage`."""
    usage = value.get("usage") if isinstance(value, dict) else None
    if not isinstance(usage, dict) or not isinstance(usage.get("completion_tokens", 0), int):
        return None
    prompt = usage.get("prompt_tokens")
    return TokenUsage(prompt if isinstance(prompt, int) else None, usage.get("completion_tokens", 0))


def finish_of(value: Any) -> str:
    """Why generation stopped, by the first choice that says so."""
    choices = value.get("choices") if isinstance(value, dict) else None
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("finish_reason"):
            return str(choice["finish_reason"])
    return ""


def read_stream_line(line: bytes) -> tuple[Any, Chunk]:
    """The line as JSON, and what it says. OpenAIError if it is the server's word on why the stream broke."""
    value = parse_json(line)
    if value is None:
        text = line.decode("utf-8", "replace").strip()[:LONGEST_ERROR]
        raise OpenAIError(502, f"the model's stream broke: {text}", code="stream_broken")
    if error_text(value):
        status = value.get("code")
        is_status = isinstance(status, int) and 400 <= status < 600
        raise server_error(status if is_status else 500, line)
    return value, read_line(value)


class ChunkWriter:
    """OpenAI's chunks of one response, as server-sent events."""

    def __init__(self, kind: CompletionKind, identity: ResponseIdentity) -> None:
        self._chat = kind == "chat"
        prefix, name = ("chatcmpl", "chat.completion.chunk") if self._chat else ("cmpl", "text_completion")
        self._common = {
            "id": f"{prefix}-{identity.key}",
            "object": name,
            "created": identity.created,
            "model": identity.model,
        }
        self._begun = False

    def text(self, text: str) -> bytes:
        role = {"role": "assistant"} if self._chat and not self._begun else {}
        self._begun = True
        return self._choice({"delta": {**role, "content": text}} if self._chat else {"text": text}, None)

    def message(self, message: dict[str, Any]) -> bytes:
        """The message of a response that did not come as a stream; calls of tools get the index of a stream's."""
        calls = message.get("tool_calls") or []
        indexed = {"tool_calls": [{"index": at, **call} for at, call in enumerate(calls)]} if calls else {}
        self._begun = True
        return self._choice({"delta": {**message, **indexed}}, None)

    def finish(self, reason: str) -> bytes:
        return self._choice({"delta": {}} if self._chat else {"text": ""}, openai_finish(reason))

    def _choice(self, said: dict[str, Any], finish: str | None) -> bytes:
        return event({**self._common, "choices": [{"index": 0, **said, "finish_reason": finish}]})


def openai_finish(reason: str) -> str:
    """LMI's reasons, in OpenAI's words; an unknown one is an end like any other."""
    return reason if reason in ("length", "tool_calls", "content_filter", "function_call") else "stop"


def event(value: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
