"""The classification handler in DJL's real worker, on a tiny model whose labels are nonsense but exact."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lmi_deploy.domain.inference_http import Question
from tests.handlers.handler_worker import asked, assert_refused, serving, template, worker
from tests.support.handler_driver import Worker
from tests.support.sample_model import kept_tiny

pytestmark = pytest.mark.model
HANDLER = template("text-classification")


@pytest.fixture(scope="module")
def handler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("classes"), HANDLER) as running:
        assert running.load(model_id=kept_tiny(serving(), "text-classification")).code == 204
        assert any("3 labels scored" in line for line in running.log)
        yield running


def test_the_best_label_comes_with_its_score(handler: Worker) -> None:
    (best,) = handler.ask({"inputs": "I like it"}).json
    assert best["label"] in ("BAD", "FAIR", "GOOD")
    assert 0 < best["score"] < 1


def test_more_labels_come_when_asked_for_and_sum_to_one(handler: Worker) -> None:
    every = handler.ask({"inputs": "I like it", "parameters": {"top_k": 0}}).json
    assert {each["label"] for each in every} == {"BAD", "FAIR", "GOOD"}
    assert sum(each["score"] for each in every) == pytest.approx(1, abs=1e-5)
    assert [each["score"] for each in every] == sorted((each["score"] for each in every), reverse=True)
    assert handler.ask({"inputs": "I like it", "parameters": {"top_k": 2}}).json == every[:2]


def test_the_function_may_be_chosen(handler: Worker) -> None:
    apart = handler.ask({"inputs": "x", "parameters": {"top_k": 0, "function_to_apply": "sigmoid"}}).json
    assert sum(each["score"] for each in apart) != pytest.approx(1, abs=1e-3)
    raw = handler.ask({"inputs": "x", "parameters": {"top_k": 0, "function_to_apply": "none"}}).json
    assert [each["label"] for each in raw] == [each["label"] for each in apart]


def test_a_list_is_answered_by_a_list_and_pairs_are_taken(handler: Worker) -> None:
    texts = ["I like it", {"text": "I like it", "text_pair": "so much"}, "x" * 40] * 12
    answers = handler.ask({"inputs": texts, "parameters": {"top_k": 3}}).json
    assert len(answers) == 36
    for text, answer in zip(texts[:3], answers, strict=False):
        alone = handler.ask({"inputs": text, "parameters": {"top_k": 3}}).json
        assert [each["score"] for each in answer] == pytest.approx(
            [each["score"] for each in alone], abs=1e-5
        )
    assert answers[0] != answers[1]


def test_grouped_requests_are_answered_each_for_itself(handler: Worker) -> None:
    reply = handler.ask_batch([{"inputs": "a"}, b"{", {"inputs": ["b"]}])
    assert reply.code == 200
    one, broken, two = map(json.loads, reply.items)
    assert broken["error"]["type"] == "invalid_request_error"
    assert one[0]["label"] == handler.ask({"inputs": "a"}).json[0]["label"]
    assert two[0][0]["score"] == pytest.approx(handler.ask({"inputs": "b"}).json[0]["score"], abs=1e-5)


BAD = [
    ([1], None, "expected a JSON object, got list"),
    ({"text": "x"}, None, "expected inputs, got ['text']"),
    ({"inputs": {"text_pair": "x"}}, "inputs", "inputs: expected a text, an object with text and text_pair"),
    ({"inputs": "x", "parameters": {"top_k": -1}}, "top_k", "top_k: expected a whole number from 0, got -1"),
    ({"inputs": "x", "parameters": {"top": 1}}, "top", "top: not supported, did you mean top_k?"),
    ({"inputs": "x", "parameters": {"function_to_apply": "tanh"}}, "function_to_apply",
     "function_to_apply: expected one of softmax, sigmoid, none"),
    ({"inputs": "x" * 100}, "inputs", "inputs: 101 tokens; this model takes from 1 to 64, or truncate: true"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "param", "message"), BAD, ids=[message[:40] for _, _, message in BAD])
def test_a_mistake_of_the_client_is_a_400_that_names_it(
    handler: Worker, body: object, param: str | None, message: str
) -> None:
    assert_refused(handler, body, param, message)


def test_the_codec_shows_label_and_score(handler: Worker) -> None:
    (piece,) = asked(handler, Question(prompt="I like it", stream=True, parameters={"top_k": 2}), HANDLER)
    lines = [line.split(" ") for line in piece.text.splitlines()]
    assert len(lines) == 2
    assert float(lines[0][1]) >= float(lines[1][1])
