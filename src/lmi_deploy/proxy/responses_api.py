"""/v1/responses for plain text, over the deployment's chat: the request, the whole response, the events. Pure.

By the types of the package openai (2.x, types/responses): a response has one message with one text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.domain.inference_http import ResponseHead
from lmi_deploy.inference_client.line_splitting import EventDecoder, LineDecoder
from lmi_deploy.proxy.completion_translation import (
    ServedModel,
    TranslatedRequest,
    completion_body,
    translate_completion,
)
from lmi_deploy.proxy.openai_error import OpenAIError, bad_request, parse_json
from lmi_deploy.proxy.stream_lines import (
    ResponseIdentity,
    TokenUsage,
    event,
    finish_of,
    read_stream_line,
    usage_of,
)

_SAME: Final = ("temperature", "top_p", "seed", "stop", "top_logprobs")
_ROLES: Final = ("user", "assistant", "system", "developer")
_TEXT_PARTS: Final = ("input_text", "output_text", "text")
_REFUSED: Final = ("previous_response_id", "conversation", "background", "prompt", "tools", "include")
"""What would change the response and is not done here."""


def translate_response(body: dict[str, Any], model: ServedModel) -> TranslatedRequest:
    """OpenAIError for more than plain text."""
    for name in _REFUSED:
        if body.get(name):
            raise bad_request(
                "not supported: this route returns plain text only; use /v1/chat/completions", name
            )
    chat: dict[str, Any] = {"messages": _messages(body)}
    chat |= {name: body[name] for name in _SAME if body.get(name) is not None}
    if body.get("max_output_tokens") is not None:
        chat["max_tokens"] = body["max_output_tokens"]
    chat |= _response_format(body.get("text"))
    if body.get("stream"):
        chat |= {"stream": body["stream"], "stream_options": {"include_usage": True}}
    translated = translate_completion("chat", chat, model)
    state = ResponseState(model.identity, body)

    def whole(head: ResponseHead, content: bytes) -> tuple[bytes, TokenUsage | None]:
        encoded, usage = completion_body("chat", model.identity, content)
        value = parse_json(encoded)
        message = value["choices"][0].get("message") or {} if value["choices"] else {}
        return state.whole(str(message.get("content") or ""), finish_of(value), usage), usage

    return TranslatedRequest(
        request=translated.request,
        whole=whole,
        stream=lambda head: ResponsesStream(state, head),
        error_event=state.error_event,
    )


def _messages(body: Mapping[str, Any]) -> list[dict[str, str]]:
    asked = body.get("input")
    items = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    if not isinstance(items, list) or not items:
        raise bad_request("expected a text or a list of messages", "input")
    instructions = body.get("instructions")
    system = [{"role": "system", "content": str(instructions)}] if instructions else []
    return [*system, *(_message(item, f"input[{at}]") for at, item in enumerate(items))]


def _message(item: Any, name: str) -> dict[str, str]:
    if (
        not isinstance(item, dict)
        or item.get("type", "message") != "message"
        or item.get("role") not in _ROLES
    ):
        raise bad_request(f"expected a message with role and content, got {item!r:.80}", name)
    content = item.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or not all(
        isinstance(part, dict) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str)
        for part in parts
    ):
        raise bad_request("expected text alone: /v1/chat/completions takes other content", f"{name}.content")
    role = "system" if item["role"] == "developer" else str(item["role"])
    return {"role": role, "content": "".join(part["text"] for part in parts)}


def _response_format(text: Any) -> dict[str, Any]:
    """`text.format` is `response_format`, with its schema one level up."""
    form = text.get("format") if isinstance(text, dict) else None
    if not isinstance(form, dict) or form.get("type") in (None, "text"):
        return {}
    if form["type"] == "json_schema":
        schema = {name: value for name, value in form.items() if name != "type"}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {"response_format": form}


@dataclass(slots=True)
class ResponseState:
    """The response so far; every event of a stream repeats parts of it."""

    identity: ResponseIdentity
    asked: Mapping[str, Any]
    number: int = 0

    @property
    def message_id(self) -> str:
        return f"msg_{self.identity.key}"

    def whole(self, text: str, finish: str, usage: TokenUsage | None) -> bytes:
        return json.dumps(self.response(text, finish, usage), ensure_ascii=False).encode()

    def response(self, text: str, finish: str, usage: TokenUsage | None) -> dict[str, Any]:
        cut = finish == "length"
        status = "incomplete" if cut else "completed"
        return {
            **self.fields(status),
            "output": [self.message(text, status)],
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "usage": _usage(usage),
        }

    def fields(self, status: str) -> dict[str, Any]:
        asked = self.asked
        return {
            "id": f"resp_{self.identity.key}",
            "object": "response",
            "created_at": self.identity.created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": asked.get("instructions"),
            "max_output_tokens": asked.get("max_output_tokens"),
            "metadata": asked.get("metadata") or {},
            "model": self.identity.model,
            "output": [],
            "parallel_tool_calls": True,
            "temperature": asked.get("temperature"),
            "text": asked.get("text") or {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": asked.get("top_p"),
            "usage": None,
        }

    def message(self, text: str, status: str) -> dict[str, Any]:
        content = [self.text_part(text)] if status != "in_progress" else []
        return {
            "id": self.message_id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }

    def text_part(self, text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def event(self, name: str, fields: Mapping[str, Any]) -> bytes:
        numbered = {"type": name, "sequence_number": self.number, **fields}
        self.number += 1
        return event(numbered, name)

    def error_event(self, error: OpenAIError) -> bytes:
        fields = {"code": error.code, "message": error.message, "param": error.param}
        failed = {**self.fields("failed"), "error": {"code": "server_error", "message": error.message}}
        return self.event("error", fields) + self.event("response.failed", {"response": failed})


class ResponsesStream:
    """The chunks of a chat as the events of a response."""

    def __init__(self, state: ResponseState, head: ResponseHead) -> None:
        is_events = "event-stream" in head.header("content-type").lower()
        self._lines: LineDecoder | EventDecoder = EventDecoder() if is_events else LineDecoder()
        self._state = state
        self._begun = False
        self._text: list[str] = []
        self._finish = ""
        self.usage: TokenUsage | None = None
        self.failure: OpenAIError | None = None

    def feed(self, data: bytes) -> bytes:
        return self._events(self._lines.feed(data))

    def close(self) -> bytes:
        events = self._events(self._lines.close())
        if self.failure is None and not self._finish:
            self.failure = OpenAIError(
                502, "the model's stream ended without a finish reason", code="stream_broken"
            )
        if self.failure is not None:
            return events
        state, text = self._state, "".join(self._text)
        status = "incomplete" if self._finish == "length" else "completed"
        item = {"item_id": state.message_id, "output_index": 0, "content_index": 0}
        response = {"response": state.response(text, self._finish, self.usage)}
        done = {"output_index": 0, "item": state.message(text, status)}
        return b"".join(
            (
                events if self._begun else self._begin(),
                state.event("response.output_text.done", {**item, "text": text, "logprobs": []}),
                state.event("response.content_part.done", {**item, "part": state.text_part(text)}),
                state.event("response.output_item.done", done),
                state.event(f"response.{status}", response),
            )
        )

    def _events(self, lines: list[bytes]) -> bytes:
        events = []
        for line in lines:
            if line == b"[DONE]":
                continue
            try:
                value, chunk = read_stream_line(line)
            except OpenAIError as error:
                self.failure = error
                break
            self.usage = usage_of(value) or self.usage
            self._finish = finish_of(value) or chunk.finish or self._finish
            if not self._begun:
                events.append(self._begin())
            text = chunk.text or _whole_text(value)
            if text:
                self._text.append(text)
                events.append(self._delta(text))
        return b"".join(events)

    def _begin(self) -> bytes:
        state, self._begun = self._state, True
        started = {"response": state.fields("in_progress")}
        item = {"output_index": 0, "item": state.message("", "in_progress")}
        part = {
            "item_id": state.message_id,
            "output_index": 0,
            "content_index": 0,
            "part": state.text_part(""),
        }
        return b"".join(
            (
                state.event("response.created", started),
                state.event("response.in_progress", started),
                state.event("response.output_item.added", item),
                state.event("response.content_part.added", part),
            )
        )

    def _delta(self, text: str) -> bytes:
        item = {"item_id": self._state.message_id, "output_index": 0, "content_index": 0}
        return self._state.event("response.output_text.delta", {**item, "delta": text, "logprobs": []})


def _whole_text(value: Any) -> str:
    """Of a handler that does not stream: the message of its only line."""
    choices = value.get("choices") if isinstance(value, dict) else None
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    return str((first.get("message") or {}).get("content") or "")


def _usage(usage: TokenUsage | None) -> dict[str, Any] | None:
    if usage is None or usage.prompt is None:
        return None
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt + usage.completion,
    }
