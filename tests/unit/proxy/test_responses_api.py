"""/v1/responses over a chat."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lmi_deploy.proxy.openai_error import OpenAIError
from lmi_deploy.proxy.responses_api import translate_response
from tests.support.served_models import JSON, LINES, TEXT2TEXT, VLLM, served

ASKED: dict[str, Any] = {"model": "mine", "input": "Hi"}


def line(text: str, finish: str | None = None) -> bytes:
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]
    return json.dumps({"choices": choices}).encode() + b"\n"


def events(stream: bytes) -> list[Any]:
    found = []
    for part in stream.decode().split("\n\n"):
        if part:
            name, _, data = part.partition("\n")
            found.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {found[-1]['type']}"
    return found


def test_the_request_becomes_a_chat() -> None:
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    asked = {
        **ASKED,
        "instructions": "Be brief.",
        "input": [
            {"role": "developer", "content": "In French."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        ],
        "max_output_tokens": 9,
        "temperature": 0,
        "text": {"format": schema},
        "stream": True,
    }
    translated = translate_response(asked, served(**VLLM))
    assert translated.request.stream
    assert json.loads(translated.request.body) == {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "In French."},
            {"role": "user", "content": "Hi"},
        ],
        "max_tokens": 9,
        "temperature": 0,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
        },
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(("finish", "status"), [("stop", "completed"), ("length", "incomplete")])
def test_the_whole_response(finish: str, status: str) -> None:
    choices = [{"index": 0, "message": {"content": "Salut"}, "finish_reason": finish}]
    content = json.dumps({"choices": choices, "usage": {"prompt_tokens": 3, "completion_tokens": 2}}).encode()
    body, _ = translate_response(ASKED, served(**VLLM)).whole(JSON, content)
    found = json.loads(body)
    assert (found["id"], found["object"], found["status"], found["model"]) == (
        "resp_k",
        "response",
        status,
        "mine",
    )
    assert found["output"][0]["content"][0]["text"] == "Salut"
    assert (found["usage"]["input_tokens"], found["usage"]["output_tokens"]) == (3, 2)


def test_the_events_of_a_stream_are_numbered_and_complete() -> None:
    stream = translate_response({**ASKED, "stream": True}, served(**VLLM)).stream(LINES)
    usage = json.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}).encode()
    out = stream.feed(line("Sa")) + stream.feed(line("lut") + line("", "stop") + usage) + stream.close()
    found = events(out)
    assert [each["type"].removeprefix("response.") for each in found] == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.delta", "output_text.done"),
        *("content_part.done", "output_item.done", "completed"),
    ]
    assert [each["sequence_number"] for each in found] == list(range(len(found)))
    response = found[-1]["response"]
    assert response["output"][0]["content"][0]["text"] == "Salut"
    assert response["usage"]["total_tokens"] == 5
    assert stream.failure is None


def test_a_stream_that_breaks_ends_with_error_and_failed() -> None:
    translated = translate_response({**ASKED, "stream": True}, served(**VLLM))
    stream = translated.stream(LINES)
    stream.feed(line("Sa"))
    stream.close()
    assert stream.failure is not None
    found = events(translated.error_event(stream.failure))
    assert [each["type"] for each in found] == ["error", "response.failed"]
    assert "without a finish reason" in found[1]["response"]["error"]["message"]


@pytest.mark.parametrize(
    ("changes", "fields", "words"),
    [
        (
            {"tools": [{"type": "web_search"}]},
            VLLM,
            "tools: not supported: this route returns plain text only",
        ),
        ({"previous_response_id": "resp_1"}, VLLM, "previous_response_id: not supported"),
        ({"input": []}, VLLM, "input: expected a text"),
        ({"input": [{"type": "function_call"}]}, VLLM, r"input\[0\]: expected a message"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, VLLM, "expected text alone"),
        ({}, TEXT2TEXT, "is not a chat model"),
    ],
)
def test_more_than_plain_text_is_refused(changes: dict[str, Any], fields: dict[str, Any], words: str) -> None:
    with pytest.raises(OpenAIError, match=words) as refused:
        translate_response({**ASKED, **changes}, served(**fields))
    assert refused.value.status == 400
