"""The text-to-text handler in DJL's real worker, on a tiny T5 whose answers are nonsense but exact."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lmi_deploy.domain.inference_http import InferenceRequest
from tests.handlers.handler_worker import (
    assert_adapter_refused,
    assert_refused,
    handle,
    serving,
    template,
    worker,
)
from tests.support.handler_driver import EVENTS, Worker
from tests.support.sample_model import cached_tiny

pytestmark = pytest.mark.model
HANDLER = template("text2text-generation")

REQUEST = {"inputs": "Once upon", "parameters": {"max_new_tokens": 8}}


@pytest.fixture(scope="module")
def handler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("t5"), HANDLER) as running:
        assert (
            running.load(model_id=cached_tiny(serving(), "text2text-generation"), max_model_len=64).code
            == 204
        )
        assert any("warm-up: 2 tokens" in line for line in running.log)
        yield running


def text(handler: Worker, inputs: str = "Once upon", **parameters: object) -> str:
    reply = handler.invoke({"inputs": inputs, "parameters": {"max_new_tokens": 8, **parameters}})
    assert reply.code == 200, reply.body
    return str(reply.json["generated_text"])


def test_a_request_for_an_adapter_is_refused(handler: Worker) -> None:
    assert_adapter_refused(handler, REQUEST)


def test_text_gives_a_text_and_list_gives_a_list(handler: Worker) -> None:
    assert text(handler)
    responses = handler.invoke({**REQUEST, "inputs": ["Once upon", "x"] * 17}).json
    assert [each["generated_text"] for each in responses[:2]] == [text(handler), text(handler, "x")]
    assert len(responses) == 34


def test_stream_has_the_same_text_as_the_response(handler: Worker) -> None:
    reply = handler.invoke({**REQUEST, "stream": True})
    assert (reply.code, reply.properties) == (200, {"Content-Type": "application/jsonlines"})
    assert (
        "".join(line["token"]["text"] for line in reply.lines)
        == reply.lines[-1]["generated_text"]
        == text(handler)
    )
    events = handler.invoke({**REQUEST, "stream": True}, EVENTS)
    assert (events.properties, events.events) == ({"Content-Type": "text/event-stream"}, reply.lines)


def test_sampling_follows_the_seed_and_greedy_is_deterministic(handler: Worker) -> None:
    hot = {"temperature": 3.0, "max_new_tokens": 20}
    assert text(handler, **hot, seed=1) == text(handler, **hot, seed=1) != text(handler, **hot, seed=2)
    assert text(handler) == text(handler, temperature=0, top_p=0.5) == text(handler, do_sample=False)
    assert text(handler, num_beams=3)


def test_batched_requests_are_answered_separately(handler: Worker) -> None:
    reply = handler.invoke_batch([REQUEST, b"{", {**REQUEST, "inputs": "x"}, {**REQUEST, "stream": True}])
    assert reply.code == 200
    one, invalid, two = map(json.loads, reply.items[:3])
    assert [one["generated_text"], two["generated_text"]] == [text(handler), text(handler, "x")]
    assert invalid["error"]["type"] == "invalid_request_error"
    assert json.loads(reply.items[3].splitlines()[-1])["generated_text"] == text(handler)


INVALID = [
    ({"messages": []}, None, "expected inputs, got ['messages']"),
    ({"inputs": "x", "max_new_tokens": 1}, "max_new_tokens", "max_new_tokens: not supported"),
    ({"inputs": "x", "parameters": {"max_token": 1}}, "max_token", "max_token: not supported, did you mean"),
    ({"inputs": "x", "parameters": {"top_p": 2}}, "top_p", "top_p: expected a number from 0 to 1, got 2"),
    ({"inputs": "x", "parameters": {"num_beams": 1.5}}, "num_beams", "num_beams: expected a whole number"),
    ({"inputs": ["x", "y"], "stream": True}, "stream", "stream: lists and beams cannot be streamed"),
    ({"inputs": "x" * 99}, "inputs", "inputs: 100 tokens; this model takes from 1 to 64"),
]


@pytest.mark.parametrize(
    ("body", "param", "message"), INVALID, ids=[message[:40] for _, _, message in INVALID]
)
def test_client_error_is_400_and_names_the_parameter(
    handler: Worker, body: object, param: str | None, message: str
) -> None:
    assert_refused(handler, body, param, message)


@pytest.mark.parametrize("stream", [False, True])
def test_codec_shows_the_text(handler: Worker, *, stream: bool) -> None:
    chunks = handle(
        handler, InferenceRequest(prompt="Once upon", stream=stream, parameters={"max_tokens": 8}), HANDLER
    )
    assert "".join(chunk.text for chunk in chunks) == text(handler)
