"""Chat and completions: what a deployment is sent, and what becomes of its response."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lmi_deploy.domain.sagemaker.resource_names import adapter_component_name
from lmi_deploy.proxy.completion_translation import TranslatedRequest, translate_completion
from lmi_deploy.proxy.openai_error import OpenAIError
from lmi_deploy.proxy.stream_lines import TokenUsage
from tests.support.served_models import (
    BUILTIN,
    CUSTOM,
    EMBEDDING,
    LINES,
    ROLLING,
    TEXT2TEXT,
    VLLM,
    head,
    served,
)

CHAT: dict[str, Any] = {"model": "mine", "messages": [{"role": "user", "content": "Hi"}]}
PROMPT: dict[str, Any] = {"model": "mine", "prompt": "Once"}
CHUNK = {"id": "x", "object": "chat.completion.chunk", "model": "/opt/ml/model"}


def sent(translated: TranslatedRequest) -> Any:
    return json.loads(translated.request.body)


def chunk(text: str, finish: str | None = None, **more: Any) -> bytes:
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]
    return json.dumps({**CHUNK, "choices": choices, **more}).encode() + b"\n"


def events(stream: bytes) -> list[Any]:
    data = [part.removeprefix("data: ") for part in stream.decode().split("\n\n") if part]
    return [each if each == "[DONE]" else json.loads(each) for each in data]


def streamed(translated: TranslatedRequest, *pieces: bytes, kind: str = "application/jsonlines") -> Any:
    """The events, and why the stream broke."""
    translation = translated.stream(head(kind))
    out = b""
    for piece in pieces:
        out += translation.feed(piece)
        if translation.failure is not None:
            return events(out), translation
    return events(out + translation.close()), translation


@pytest.mark.parametrize("fields", [VLLM, CUSTOM])
def test_a_chat_passes_unchanged_but_for_the_name_that_only_the_proxy_knows(fields: dict[str, Any]) -> None:
    more = {"tools": [{"type": "function"}], "response_format": {"type": "json_object"}, "top_k": 3}
    body = {**CHAT, **more, "stream": True, "stream_options": {"include_usage": True}}
    translated = translate_completion("chat", body, served(**fields))
    assert sent(translated) == {name: value for name, value in body.items() if name != "model"}
    assert translated.request.stream


def test_our_own_handlers_get_the_name() -> None:
    assert sent(translate_completion("chat", CHAT, served())) == CHAT


def test_an_adapter_component_is_named_in_place_of_the_model() -> None:
    plain = served(adapter="french", **VLLM)
    model = replace(plain, codec=replace(plain.codec, adapter_base="chat"))
    headers = dict(translate_completion("chat", CHAT, model).request.headers)
    component = adapter_component_name("chat", "french")
    assert headers["X-Amzn-SageMaker-Inference-Component"] == component
    assert "X-Amzn-SageMaker-Adapter-Identifier" not in headers


def test_an_adapter_is_named_in_headers_that_pass_sagemaker() -> None:
    headers = dict(translate_completion("chat", CHAT, served(adapter="french", **VLLM)).request.headers)
    assert headers["X-Amzn-SageMaker-Adapter-Identifier"] == "french"
    assert headers["X-Amzn-SageMaker-Custom-Attributes"] == "X-Amzn-SageMaker-Adapter-Identifier=french"


@pytest.mark.parametrize("fields", [TEXT2TEXT, ROLLING, BUILTIN])
def test_a_completion_is_put_into_the_form_of_lmi(fields: dict[str, Any]) -> None:
    body = {**PROMPT, "max_tokens": 5, "top_p": 0.5, "user": "me", "n": 1, "stream": False}
    expected = {"inputs": "Once", "parameters": {"max_new_tokens": 5, "top_p": 0.5}}
    found = sent(translate_completion("text", body, served(**fields)))
    assert found["inputs"] == expected["inputs"]
    assert expected["parameters"].items() <= found["parameters"].items()


def test_a_stop_text_becomes_a_list() -> None:
    found = sent(translate_completion("text", {**PROMPT, "stop": "."}, served(**TEXT2TEXT)))
    assert found["parameters"] == {"stop_sequences": ["."]}


@pytest.mark.parametrize(
    ("kind", "body", "fields", "words"),
    [
        ("chat", {"model": "m"}, {}, "messages: required"),
        ("text", {"model": "m"}, {}, "prompt: required"),
        ("chat", {**CHAT, "stream": "yes"}, {}, "stream: expected true or false"),
        ("chat", CHAT, TEXT2TEXT, "is not a chat model: use /v1/completions"),
        ("text", PROMPT, EMBEDDING, "does not generate text: use /v1/embeddings"),
        ("text", {**PROMPT, "prompt": ["a", "b"]}, TEXT2TEXT, "one text per request"),
        ("text", {**PROMPT, "n": 2}, TEXT2TEXT, "generates 1 text per request"),
    ],
)
def test_requests_without_support_of_the_deployment_are_refused(
    kind: Any, body: dict[str, Any], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(OpenAIError, match=words) as refused:
        translate_completion(kind, body, served(**fields))
    assert refused.value.status == 400


def test_a_whole_response_keeps_its_choices_and_gets_the_name() -> None:
    choices = [{"index": 0, "message": {"role": "assistant", "tool_calls": [{"id": "1"}]}}]
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    content = json.dumps({"id": "a", "model": "/opt/ml/model", "choices": choices, "usage": usage}).encode()
    body, counted = translate_completion("chat", CHAT, served(**VLLM)).whole(LINES, content)
    assert json.loads(body) == {"id": "a", "model": "mine", "choices": choices, "usage": usage}
    assert counted == TokenUsage(3, 2)


def test_generated_text_becomes_a_completion() -> None:
    details = {"finish_reason": "length", "generated_tokens": 4}
    content = json.dumps({"generated_text": "a time", "details": details}).encode()
    for fields in (TEXT2TEXT, CUSTOM):
        body, counted = translate_completion("text", PROMPT, served(**fields)).whole(
            head("application/json"), content
        )
        found = json.loads(body)
        assert found["choices"] == [
            {"index": 0, "text": "a time", "logprobs": None, "finish_reason": "length"}
        ]
        assert (found["object"], found["model"], found["id"]) == ("text_completion", "mine", "cmpl-k")
        assert "usage" not in found  # the tokens of the prompt are unknown
        assert counted == TokenUsage(None, 4)


def test_an_error_under_the_status_of_a_success_is_an_error() -> None:
    with pytest.raises(OpenAIError, match="no memory") as failed:
        translate_completion("chat", CHAT, served(**VLLM)).whole(
            LINES, b'{"error": "no memory", "code": 500}'
        )
    assert failed.value.status == 502


def test_lines_become_events_in_pieces_of_any_size() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    stream = (
        chunk("a")
        + chunk("\u00e9")
        + chunk("", "stop")
        + json.dumps({**CHUNK, "choices": [], "usage": usage}).encode()
    )
    for size in (1, 7, 10_000):
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        found, translation = streamed(
            translate_completion("chat", {**CHAT, "stream": True}, served(**VLLM)), *pieces
        )
        assert [event["choices"][0]["delta"]["content"] for event in found[:3]] == ["a", "\u00e9", ""]
        assert {event["model"] for event in found[:-1]} == {"mine"}
        assert (found[3]["usage"], found[4]) == (usage, "[DONE]")
        assert (translation.usage, translation.failure) == (TokenUsage(3, 2), None)


def test_the_name_of_the_model_is_replaced_only_where_it_is_the_key() -> None:
    text = 'say "model": "/opt/ml/model" twice'
    found, _ = streamed(translate_completion("chat", CHAT, served(**VLLM)), chunk(text), chunk("", "stop"))
    assert found[0]["choices"][0]["delta"]["content"] == text
    assert found[0]["model"] == "mine"


def test_server_sent_events_pass_as_they_are() -> None:
    stream = b"data: " + chunk("a") + b"\ndata: " + chunk("", "stop") + b"\ndata: [DONE]\n\n"
    found, translation = streamed(
        translate_completion("chat", CHAT, served(**VLLM)), stream, kind="text/event-stream"
    )
    assert (found[0]["choices"][0]["delta"]["content"], found[-1], len(found)) == ("a", "[DONE]", 3)
    assert translation.failure is None


@pytest.mark.parametrize(
    ("last", "status", "words"),
    [
        (b'{"error": {"message": "no memory"}}\n', 500, "no memory"),
        (b'{"error": "worker died", "code": 424}\n', 424, "worker died"),
        (b"java.lang.Error: gone\n", 502, "java.lang.Error: gone"),
        (b"", 502, "without a finish reason"),
    ],
)
def test_a_stream_that_breaks_says_so_after_what_came_before(last: bytes, status: int, words: str) -> None:
    found, translation = streamed(translate_completion("chat", CHAT, served(**VLLM)), chunk("a") + last)
    assert [event["choices"][0]["delta"]["content"] for event in found] == ["a"]
    assert translation.failure.status == status
    assert words in translation.failure.message


def test_lines_of_tokens_become_chunks_with_a_role_and_a_finish_reason_without_usage() -> None:
    tokens = [
        {"token": {"text": "a"}},
        {"token": {"text": "b"}, "generated_text": "ab", "details": {"finish_reason": "length"}},
    ]
    stream = "".join(json.dumps(line) + "\n" for line in tokens).encode()
    found, _ = streamed(translate_completion("chat", CHAT, served(**CUSTOM)), stream)
    assert found[0]["choices"][0]["delta"] == {"role": "assistant", "content": "a"}
    assert [event["choices"][0]["finish_reason"] for event in found[:-1]] == [None, None, "length"]
    body = {**PROMPT, "stream": True, "stream_options": {"include_usage": True}}
    found, translation = streamed(translate_completion("text", body, served(**TEXT2TEXT)), stream)
    assert [event["choices"][0]["text"] for event in found[:3]] == ["a", "b", ""]
    assert found[3] == "[DONE]"
    assert translation.usage == TokenUsage(None, 2)


def test_a_handler_that_does_not_stream_gives_one_event() -> None:
    message = {"role": "assistant", "content": "all", "tool_calls": [{"id": "1"}]}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    content = json.dumps({"choices": choices, "usage": {"completion_tokens": 1}}).encode()
    found, _ = streamed(translate_completion("chat", CHAT, served(**VLLM)), content, kind="application/json")
    assert found[0]["choices"][0]["delta"] == {**message, "tool_calls": [{"index": 0, "id": "1"}]}
    assert (found[1]["choices"][0]["finish_reason"], found[2]) == ("tool_calls", "[DONE]")


def test_lines_under_the_name_of_json_are_lines() -> None:
    translated = translate_completion("chat", CHAT, served())
    found, _ = streamed(translated, chunk("a") + chunk("", "stop"), kind="application/json")
    assert (found[0]["choices"][0]["delta"]["content"], found[-1]) == ("a", "[DONE]")


def test_an_error_of_the_engines_form_breaks_the_stream() -> None:
    translated = translate_completion("text", PROMPT, served(**BUILTIN))
    found, translation = streamed(
        translated, b'{"outputs": ["Once"]}\n{"outputs": [" a time"]}\n{"outputs": "no memory"}\n'
    )
    assert [event["choices"][0]["text"] for event in found] == [" a time"]
    assert "no memory" in translation.failure.message
