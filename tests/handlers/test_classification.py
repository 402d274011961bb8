"""The classification handler in DJL's real worker, on a tiny model whose labels are nonsense but exact."""

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
from tests.support.handler_driver import Worker
from tests.support.sample_model import cached_tiny

pytestmark = pytest.mark.model
HANDLER = template("text-classification")


@pytest.fixture(scope="module")
def handler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("classes"), HANDLER) as running:
        assert running.load(model_id=cached_tiny(serving(), "text-classification")).code == 204
        assert any("3 labels scored" in line for line in running.log)
        yield running


def test_a_request_for_an_adapter_is_refused(handler: Worker) -> None:
    assert_adapter_refused(handler, {"inputs": "I like it"})


def test_best_label_is_returned_with_its_score(handler: Worker) -> None:
    (best,) = handler.invoke({"inputs": "I like it"}).json
    assert best["label"] in ("BAD", "FAIR", "GOOD")
    assert 0 < best["score"] < 1


def test_top_k_returns_more_labels_and_all_scores_sum_to_one(handler: Worker) -> None:
    every = handler.invoke({"inputs": "I like it", "parameters": {"top_k": 0}}).json
    assert {each["label"] for each in every} == {"BAD", "FAIR", "GOOD"}
    assert sum(each["score"] for each in every) == pytest.approx(1, abs=1e-5)
    assert [each["score"] for each in every] == sorted((each["score"] for each in every), reverse=True)
    assert handler.invoke({"inputs": "I like it", "parameters": {"top_k": 2}}).json == every[:2]


def test_function_to_apply_can_be_chosen(handler: Worker) -> None:
    apart = handler.invoke({"inputs": "x", "parameters": {"top_k": 0, "function_to_apply": "sigmoid"}}).json
    assert sum(each["score"] for each in apart) != pytest.approx(1, abs=1e-3)
    raw = handler.invoke({"inputs": "x", "parameters": {"top_k": 0, "function_to_apply": "none"}}).json
    assert [each["label"] for each in raw] == [each["label"] for each in apart]


def test_list_of_texts_and_pairs_is_answered_by_a_list(handler: Worker) -> None:
    texts = ["I like it", {"text": "I like it", "text_pair": "so much"}, "x" * 40] * 12
    responses = handler.invoke({"inputs": texts, "parameters": {"top_k": 3}}).json
    assert len(responses) == 36
    for text, response in zip(texts[:3], responses, strict=False):
        alone = handler.invoke({"inputs": text, "parameters": {"top_k": 3}}).json
        assert [each["score"] for each in response] == pytest.approx(
            [each["score"] for each in alone], abs=1e-5
        )
    assert responses[0] != responses[1]


def test_batched_requests_are_answered_separately(handler: Worker) -> None:
    reply = handler.invoke_batch([{"inputs": "a"}, b"{", {"inputs": ["b"]}])
    assert reply.code == 200
    one, invalid, two = map(json.loads, reply.items)
    assert invalid["error"]["type"] == "invalid_request_error"
    assert one[0]["label"] == handler.invoke({"inputs": "a"}).json[0]["label"]
    assert two[0][0]["score"] == pytest.approx(handler.invoke({"inputs": "b"}).json[0]["score"], abs=1e-5)


INVALID = [
    ([1], None, "expected a JSON object, got list"),
    ({"text": "x"}, None, "expected inputs, got ['text']"),
    ({"inputs": {"text_pair": "x"}}, "inputs", "inputs: expected a text, an object with text and text_pair"),
    ({"inputs": "x", "parameters": {"top_k": -1}}, "top_k", "top_k: expected a whole number from 0, got -1"),
    ({"inputs": "x", "parameters": {"top": 1}}, "top", "top: not supported, did you mean top_k?"),
    ({"inputs": "x", "parameters": {"function_to_apply": "tanh"}}, "function_to_apply",
     "function_to_apply: expected one of softmax, sigmoid, none"),
    ({"inputs": "x" * 100}, "inputs", "inputs: 101 tokens; this model takes from 1 to 64, or truncate: true"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "param", "message"), INVALID, ids=[message[:40] for _, _, message in INVALID]
)
def test_client_error_is_400_and_names_the_parameter(
    handler: Worker, body: object, param: str | None, message: str
) -> None:
    assert_refused(handler, body, param, message)


def test_codec_shows_labels_and_scores(handler: Worker) -> None:
    (chunk,) = handle(
        handler, InferenceRequest(prompt="I like it", stream=True, parameters={"top_k": 2}), HANDLER
    )
    lines = [line.split(" ") for line in chunk.text.splitlines()]
    assert len(lines) == 2
    assert float(lines[0][1]) >= float(lines[1][1])
