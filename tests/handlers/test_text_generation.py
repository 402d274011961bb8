"""The text generation handler in DJL's real worker, on a tiny model whose answers are nonsense but exact."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.domain.inference_http import InferenceRequest
from tests.handlers.handler_worker import assert_adapter_refused, handle, serving, worker
from tests.support.handler_driver import EVENTS, HEADERS, Worker, read_events
from tests.support.sample_model import cached_tiny_model

pytestmark = pytest.mark.model

CHAT = {"messages": [{"role": "user", "content": "Grüß Gott"}], "max_tokens": 8}
PROMPT = {"prompt": "Once upon", "max_tokens": 8}
INPUTS = {"inputs": "Once upon", "parameters": {"max_new_tokens": 8}}
CONTEXT = 128


@pytest.fixture(scope="module")
def tiny() -> Path:
    return cached_tiny_model(serving())


@pytest.fixture(scope="module")
def handler(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("tiny")) as running:
        assert running.load(model_id=tiny, engine="Python", served_model_name="tiny").code == 204
        yield running


def text(handler: Worker, **changes: Any) -> str:
    response: str = handler.invoke({**PROMPT, **changes}).json["choices"][0]["text"]
    return response


def test_a_request_for_an_adapter_is_refused(handler: Worker) -> None:
    assert_adapter_refused(handler, PROMPT)


def test_chat_gets_an_openai_chat_completion(handler: Worker) -> None:
    reply = handler.invoke(CHAT)
    assert (reply.code, reply.properties) == (200, {"Content-Type": "application/json"})
    response = reply.json
    assert (response["object"], response["model"]) == ("chat.completion", "tiny")
    assert response["id"].startswith("chatcmpl-")
    (choice,) = response["choices"]
    assert choice["message"]["role"] == "assistant"
    assert (choice["index"], choice["finish_reason"]) == (0, "length")
    prompt = len("<s>user: Grüß Gott</s><s>assistant: ".replace("<s>", "1").replace("</s>", "2").encode())
    assert response["usage"] == {"prompt_tokens": prompt, "completion_tokens": 8, "total_tokens": prompt + 8}


def test_chat_content_can_be_a_list_of_text_parts(handler: Worker) -> None:
    parts = [{"type": "text", "text": "Grüß "}, {"type": "text", "text": "Gott"}]
    full = handler.invoke(CHAT).json["choices"]
    assert handler.invoke({**CHAT, "messages": [{"role": "user", "content": parts}]}).json["choices"] == full


def test_prompt_gets_an_openai_text_completion(handler: Worker) -> None:
    reply = handler.invoke({**PROMPT, "model": "mine"}).json
    assert (reply["object"], reply["model"]) == ("text_completion", "mine")
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"] == {"prompt_tokens": 9, "completion_tokens": 8, "total_tokens": 17}


def test_inputs_get_an_lmi_response(handler: Worker) -> None:
    assert handler.invoke(INPUTS).json == {"generated_text": text(handler)}


def test_full_text_and_details_are_returned_on_request(handler: Worker) -> None:
    parameters = {"max_new_tokens": 8, "return_full_text": True, "details": True}
    response = handler.invoke({**INPUTS, "parameters": parameters}).json
    assert response["generated_text"] == "Once upon" + text(handler)
    details = response["details"]
    assert (details["finish_reason"], details["generated_tokens"], details["seed"]) == ("length", 8, None)
    assert len(details["tokens"]) == 8
    assert all(token["log_prob"] < 0 for token in details["tokens"])


def test_list_of_inputs_is_answered_by_a_list_in_order(handler: Worker) -> None:
    responses = handler.invoke({**INPUTS, "inputs": ["Once upon", "a", "Once upon"]}).json
    assert [response["generated_text"] for response in responses] == [
        text(handler),
        text(handler, prompt="a"),
        text(handler),
    ]


def test_more_inputs_than_one_batch_are_all_answered(handler: Worker) -> None:
    body = {"inputs": ["Once upon"] * 33, "parameters": {"max_new_tokens": 2}}
    assert handler.invoke(body).json == [{"generated_text": text(handler, max_tokens=2)}] * 33


def test_default_length_is_30_tokens(handler: Worker) -> None:
    response = handler.invoke({"inputs": "Once upon", "parameters": {"details": True}}).json
    assert response["details"]["generated_tokens"] == 30


def test_chat_stream_is_openai_chunks_as_json_lines(handler: Worker) -> None:
    reply = handler.invoke({**CHAT, "stream": True, "stream_options": {"include_usage": True}})
    assert (reply.code, reply.properties) == (200, {"Content-Type": "application/jsonlines"})
    *chunks, last, usage = reply.lines
    assert len(reply.frames) == len(reply.lines)
    assert {line["object"] for line in reply.lines} == {"chat.completion.chunk"}
    assert len({line["id"] for line in reply.lines}) == 1
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    output = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks)
    assert output == handler.invoke(CHAT).json["choices"][0]["message"]["content"]
    assert last["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}]
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 8
    assert {line["usage"] for line in (*chunks, last)} == {None}


@pytest.mark.parametrize("body", [CHAT, PROMPT, INPUTS], ids=["chat", "prompt", "inputs"])
def test_accepted_event_stream_has_the_same_content(handler: Worker, body: dict[str, Any]) -> None:
    reply = handler.invoke({**body, "stream": True}, EVENTS)
    assert (reply.code, reply.properties) == (200, {"Content-Type": "text/event-stream"})
    assert len(reply.frames) == len(reply.events) + 1
    lines = handler.invoke({**body, "stream": True}).lines
    assert [{**event, "id": "", "created": 0} for event in reply.events] == [
        {**line, "id": "", "created": 0} for line in lines
    ]


def test_request_without_stream_gets_json_despite_accept(handler: Worker) -> None:
    reply = handler.invoke(PROMPT, EVENTS)
    assert (reply.properties, reply.json["object"]) == (
        {"Content-Type": "application/json"},
        "text_completion",
    )
    invalid = handler.invoke({**PROMPT, "stream": True, "n": 2}, EVENTS)
    assert (invalid.code, invalid.json["error"]["param"]) == (400, "n")


def test_prompt_stream_has_the_same_text(handler: Worker) -> None:
    lines = handler.invoke({**PROMPT, "stream": True}).lines
    assert "".join(line["choices"][0]["text"] for line in lines) == text(handler)
    assert [line["choices"][0]["finish_reason"] for line in lines[-2:]] == [None, "length"]


def test_inputs_stream_one_line_per_token_and_the_full_text_last(handler: Worker) -> None:
    lines = handler.invoke({**INPUTS, "stream": True}).lines
    assert ["generated_text" in line for line in lines] == [False] * 7 + [True]
    assert "".join(line["token"]["text"] for line in lines) == lines[-1]["generated_text"] == text(handler)
    assert all(line["token"]["log_prob"] < 0 for line in lines)


@pytest.mark.parametrize("seed", range(5))
def test_multi_token_characters_stream_correctly(handler: Worker, seed: int) -> None:
    body = {**PROMPT, "max_tokens": 60, "temperature": 3.0, "seed": seed}
    lines = handler.invoke({**body, "stream": True}).lines
    assert (
        "".join(line["choices"][0]["text"] for line in lines)
        == handler.invoke(body).json["choices"][0]["text"]
    )


def test_decoding_is_greedy_unless_sampling_is_requested(handler: Worker) -> None:
    assert text(handler) == text(handler, temperature=0) == text(handler, temperature=0, top_p=0.5, seed=3)
    assert text(handler, top_k=1) == text(handler)


def test_same_seed_gives_the_same_text(handler: Worker) -> None:
    hot = {"temperature": 2.0, "max_tokens": 30}
    assert text(handler, **hot, seed=1) == text(handler, **hot, seed=1)
    assert text(handler, **hot, seed=1) != text(handler, **hot, seed=2)
    assert text(handler, **hot) != text(handler, **hot)


def test_repetition_penalty_changes_the_text(handler: Worker) -> None:
    assert text(handler, repetition_penalty=5.0) != text(handler)


@pytest.mark.parametrize("stream", [False, True])
def test_text_ends_before_the_stop_sequence(handler: Worker, *, stream: bool) -> None:
    full = text(handler, max_tokens=30)
    stop = full[5:8]
    reply = handler.invoke({**PROMPT, "max_tokens": 30, "stop": ["never said", stop], "stream": stream})
    choices = [line["choices"][0] for line in (reply.lines if stream else [reply.json])]
    assert "".join(choice["text"] for choice in choices) == full[: full.index(stop)]
    assert choices[-1]["finish_reason"] == "stop"


def test_partial_stop_sequence_at_the_end_is_returned(handler: Worker) -> None:
    full = text(handler)
    lines = handler.invoke({**PROMPT, "stop": full[-2:] + "and no more", "stream": True}).lines
    assert "".join(line["choices"][0]["text"] for line in lines) == full


def test_parameters_with_default_values_are_accepted(handler: Worker) -> None:
    habits = {"n": 1, "frequency_penalty": 0, "presence_penalty": 0.0, "logprobs": False, "user": "me"}
    habits |= {"response_format": {"type": "text"}, "store": False, "tools": None, "never_heard_of": None}
    assert text(handler, **habits, top_p=None, stop=None) == text(handler)


INVALID: list[tuple[object, str | None, str]] = [
    (b"{", None, "the body is not JSON in UTF-8: Expecting property name"),
    (b"\xff", None, "the body is not JSON in UTF-8"),
    (b"", None, "the body is not JSON in UTF-8"),
    (b'{"prompt": "\\ud800"}', None, "the body is not JSON in UTF-8"),
    (b"[" * 100_000, None, "the body is not JSON in UTF-8"),
    ([1], None, "expected a JSON object, got list"),
    ({}, None, "expected one of messages, prompt or inputs, got an empty object"),
    ({"input": "x"}, None, "expected one of messages, prompt or inputs, got ['input']"),
    ({"messages": []}, "messages", "messages: expected a list of messages"),
    ({"messages": "Hi"}, "messages", "messages: expected a list of messages, got 'Hi'"),
    (
        {"messages": [{"content": "Hi"}]},
        "messages[0]",
        "messages[0]: expected an object with role and content",
    ),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "messages[0].content: expected a text"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages[0].content",
        "messages[0].content: expected a text, or parts of type text",
    ),
    (
        {"messages": [{"role": "judge", "content": "Hi"}]},
        "messages",
        "messages: the model's chat template refuses them: unknown role judge",
    ),
    ({"prompt": ""}, "prompt", "prompt: expected a text or a list of texts"),
    ({"prompt": 1}, "prompt", "prompt: expected a text or a list of texts"),
    ({"inputs": []}, "inputs", "inputs: expected a text or a list of texts"),
    ({**PROMPT, "temprature": 1}, "temprature", "temprature: not supported, did you mean temperature?"),
    ({**PROMPT, "tools": []}, "tools", "tools: not supported, known here: max_completion_tokens, max_tokens"),
    ({**PROMPT, "n": 2}, "n", "n: only 1 is supported here, got 2"),
    (
        {**CHAT, "response_format": {"type": "json_object"}},
        "response_format",
        'response_format: only {"type": "text"} is supported here',
    ),
    ({**PROMPT, "logprobs": 3}, "logprobs", "logprobs: only false is supported here, got 3"),
    (
        {**PROMPT, "max_tokens": "5"},
        "max_tokens",
        "max_tokens: expected a whole number from 1 to 1000000, got '5'",
    ),
    ({**PROMPT, "max_tokens": 1.5}, "max_tokens", "max_tokens: expected a whole number"),
    ({**PROMPT, "max_tokens": True}, "max_tokens", "max_tokens: expected a whole number"),
    ({**PROMPT, "max_tokens": 0}, "max_tokens", "max_tokens: expected a whole number from 1"),
    ({**PROMPT, "temperature": -1}, "temperature", "temperature: expected a number from 0 to 100, got -1"),
    ({**PROMPT, "temperature": float("nan")}, "temperature", "temperature: expected a number from 0 to 100"),
    ({**PROMPT, "top_p": 2}, "top_p", "top_p: expected a number from 0 to 1, got 2"),
    ({**PROMPT, "stop": [""]}, "stop", "stop: expected a text or a list of texts"),
    ({**PROMPT, "stream": 1}, "stream", "stream: expected true or false, got 1"),
    ({"prompt": ["a", "b"], "stream": True}, "stream", "stream: a list of prompts cannot be streamed"),
    ({**PROMPT, "stream_options": 1}, "stream_options", "stream_options: expected an object"),
    (
        {"inputs": "a", "max_new_tokens": 1},
        "max_new_tokens",
        "max_new_tokens: not supported, known here: inputs",
    ),
    ({"inputs": "a", "parameters": []}, "parameters", "parameters: expected an object, got []"),
    (
        {"inputs": "a", "parameters": {"max_token": 1}},
        "max_token",
        "max_token: not supported, did you mean max_new_tokens?",
    ),
    ({"inputs": "a", "parameters": {"details": 1}}, "details", "details: expected true or false"),
    ({"prompt": "x" * 200}, "prompt", "prompt: 200 tokens; this model takes from 1 to 127 before its answer"),
    (
        {"prompt": "x" * 100, "max_tokens": 50},
        "max_tokens",
        "max_tokens: 100 tokens of prompt + 50 to generate > 128 of context; ask for at most 28",
    ),
]


@pytest.mark.parametrize(("body", "param", "message"), INVALID, ids=[str(bad[2])[:40] for bad in INVALID])
def test_client_error_is_400_and_names_the_parameter(
    handler: Worker, body: object, param: str | None, message: str
) -> None:
    reply = handler.invoke(body)
    assert (reply.code, reply.properties) == (400, {"Content-Type": "application/json"})
    error = reply.json["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, None)
    assert error["message"].startswith(message)


def test_json_without_content_type_is_refused_with_the_missing_header(handler: Worker) -> None:
    reply = handler.invoke_entry('{"prompt": "x"}', b"")
    assert reply.code == 400
    assert "Content-Type: application/json" in reply.json["error"]["message"]


def test_answer_is_cut_at_the_context_length(handler: Worker) -> None:
    reply = handler.invoke({"prompt": "x" * (CONTEXT - 3)}).json
    assert reply["usage"]["completion_tokens"] == 3


def test_batched_requests_get_the_same_answers_as_single_ones(handler: Worker) -> None:
    bodies = [
        INPUTS,
        {**PROMPT, "temperature": 2.0, "seed": 4},
        CHAT,
        {**PROMPT, "max_tokens": 3, "prompt": "z"},
    ]
    reply = handler.invoke_batch(bodies)
    assert reply.code == 200

    together = [_text_of(json.loads(item)) for item in reply.items]
    assert together == [_text_of(handler.invoke(body).json) for body in bodies]


def test_invalid_request_in_a_batch_fails_alone(handler: Worker) -> None:

    reply = handler.invoke_batch([INPUTS, b"{", {**PROMPT, "n": 2}, PROMPT])
    assert reply.code == 200
    good, invalid, refused, also_good = map(json.loads, reply.items)
    assert good["generated_text"] == also_good["choices"][0]["text"] == text(handler)
    assert invalid["error"]["type"] == "invalid_request_error"
    assert refused["error"]["param"] == "n"


def test_batch_of_invalid_requests_is_400(handler: Worker) -> None:
    reply = handler.invoke_batch([b"{", {}])
    assert reply.code == 400
    assert len(reply.items) == 2


def test_stream_in_a_batch_is_returned_as_lines(handler: Worker) -> None:

    reply = handler.invoke_batch([PROMPT, {**PROMPT, "stream": True}])
    lines = [json.loads(line) for line in reply.items[1].decode().splitlines()]
    assert "".join(line["choices"][0]["text"] for line in lines) == text(handler)
    assert lines[-1]["choices"][0]["finish_reason"] == "length"


def test_batched_streams_and_errors_are_events_if_accepted(
    handler: Worker,
) -> None:
    streamed = {**PROMPT, "stream": True}
    reply = handler.invoke_batch([streamed, {**streamed, "n": 2}], EVENTS)
    assert (reply.code, reply.properties) == (200, {"Content-Type": "text/event-stream"})
    good, invalid = reply.items
    assert "".join(each["choices"][0]["text"] for each in read_events(good)) == text(handler)
    assert json.loads(invalid.removeprefix(b"data: "))["error"]["param"] == "n"
    assert handler.invoke_batch([b"{", {}], EVENTS).properties == {"Content-Type": "application/json"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("chat", "system"), [(True, ""), (True, "Be short."), (False, "")])
def test_codec_request_and_response_match_the_handler(
    handler: Worker, *, stream: bool, chat: bool, system: str
) -> None:
    parameters = {"max_new_tokens": 8, "temperature": 0}
    inference_request = InferenceRequest(
        prompt="Once upon", system=system, chat=chat, stream=stream, parameters=parameters
    )
    chunks = handle(handler, inference_request)
    assert sum(chunk.tokens for chunk in chunks) == 8
    assert [chunk.finish for chunk in chunks if chunk.finish] == ["length"]
    if not chat:
        assert "".join(chunk.text for chunk in chunks) == text(handler)


def test_worker_still_answers_after_all_requests(handler: Worker) -> None:
    assert handler.invoke(CHAT).code == 200


def test_model_that_cannot_be_loaded_fails_the_warm_up_call(tiny: Path, tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, object], str]] = [
        ({"model_id": tiny, "dtype": "fp8"}, "option.dtype: fp8 is not known, use one of fp32, fp16, bf16"),
        ({"model_id": tiny, "max_new_tokens": "many"}, "invalid literal for int() with base 10: 'many'"),
        ({"model_id": "/nowhere/at/all"}, "/nowhere/at/all"),
    ]
    with worker(tmp_path) as running:
        for options, output in wrong:
            reply = running.load(**options)
            assert reply.code == 424
            assert output in reply.json["error"]
        grouping = {
            "batch_size": 3,
            "max_new_tokens": 5,
            "max_model_len": 20,
            "torch_threads": 1,
            "dtype": "bf16",
        }
        assert running.load(model_id=tiny, **grouping).code == 204
        assert any("warm-up: 2 tokens" in line for line in running.log)
        assert running.invoke({"prompt": "x"}).json["usage"]["completion_tokens"] == 5
        assert "1 to 19" in running.invoke({"prompt": "x" * 30}).json["error"]["message"]


BREAKING = """

take = Row.take


def breaking(self, token, log_prob):
    if len(self.tokens) == 3 and service:
        raise RuntimeError("out of luck")
    take(self, token, log_prob)


Row.take = breaking
"""


def test_broken_stream_ends_with_an_error_line(tiny: Path, tmp_path: Path) -> None:
    message = "generation failed: out of luck"
    failed = {"message": message, "type": "server_error", "param": None, "code": None}
    with worker(tmp_path, also=BREAKING) as running:
        running.load(model_id=tiny)
        for body in (CHAT, PROMPT, INPUTS):
            for headers in (HEADERS, EVENTS):
                reply = running.invoke({**body, "stream": True}, headers)
                *lines, last = reply.events if headers is EVENTS else reply.lines
                assert len(lines) >= 3
                assert last == {"error": failed}
        full = running.invoke(PROMPT)
        assert full.code == 424
        assert full.json["error"] == "out of luck"


def _text_of(response: dict[str, Any]) -> str:
    if "generated_text" in response:
        return str(response["generated_text"])
    choice = response["choices"][0]
    return str(choice["text"] if "text" in choice else choice["message"]["content"])
