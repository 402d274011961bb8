"""The question answering handler in DJL's real worker, on a tiny model whose answers are nonsense but exact."""

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
HANDLER = template("question-answering")
CONTEXT = "Grüße vom Amazonas"
ASKED = {"question": "Where?", "context": CONTEXT}
LONG = {"question": "Where?", "context": "The Amazon is a river in South America. " * 8}


@pytest.fixture(scope="module")
def handler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("reader"), HANDLER) as running:
        assert running.load(model_id=cached_tiny(serving(), "question-answering")).code == 204
        assert any("one question in" in line for line in running.log)
        yield running


def test_a_request_for_an_adapter_is_refused(handler: Worker) -> None:
    assert_adapter_refused(handler, {"inputs": ASKED})


def test_answer_is_a_span_of_the_context_with_its_place(handler: Worker) -> None:
    answer = handler.invoke({"inputs": ASKED}).json
    assert set(answer) == {"score", "start", "end", "answer"}
    assert answer["answer"] == CONTEXT[answer["start"] : answer["end"]] != ""
    assert 0 < answer["score"] < 1


def test_several_answers_come_best_first_and_differ(handler: Worker) -> None:
    found = handler.invoke({"inputs": ASKED, "parameters": {"top_k": 4}}).json
    assert len({(each["start"], each["end"]) for each in found}) == 4
    assert [each["score"] for each in found] == sorted((each["score"] for each in found), reverse=True)
    assert found[0] == handler.invoke({"inputs": ASKED}).json


def test_answer_has_at_most_the_given_number_of_tokens(handler: Worker) -> None:
    """One token is one byte here."""
    parameters = {"top_k": 200, "max_answer_length": 3}
    found = handler.invoke({"inputs": ASKED, "parameters": parameters}).json
    assert max(each["end"] - each["start"] for each in found) == 3


def test_context_longer_than_the_model_is_read_in_windows(handler: Worker) -> None:
    found = handler.invoke({"inputs": LONG, "parameters": {"top_k": 5}}).json
    assert all(each["answer"] == LONG["context"][each["start"] : each["end"]] for each in found)
    places = handler.invoke({"inputs": LONG, "parameters": {"top_k": 2000}}).json
    assert max(each["end"] for each in places) > 250
    assert min(each["start"] for each in places) < 40


def test_empty_answer_takes_part_only_on_request(handler: Worker) -> None:
    parameters = {"top_k": 2000, "max_answer_length": 1}
    without = handler.invoke({"inputs": ASKED, "parameters": parameters}).json
    with_it = handler.invoke(
        {"inputs": ASKED, "parameters": {**parameters, "handle_impossible_answer": True}}
    ).json
    assert "" not in {each["answer"] for each in without}
    assert "" in {each["answer"] for each in with_it}


def test_list_of_questions_and_batched_requests_are_answered_in_order(handler: Worker) -> None:
    alone = [handler.invoke({"inputs": each}).json for each in (ASKED, LONG)]
    listed = handler.invoke({"inputs": [ASKED, LONG] * 9}).json
    assert [each["answer"] for each in listed] == [each["answer"] for each in alone] * 9
    reply = handler.invoke_batch([{"inputs": ASKED}, b"{", {"inputs": [LONG]}])
    one, invalid, two = map(json.loads, reply.items)
    assert reply.code == 200
    assert (one["answer"], two[0]["answer"]) == (alone[0]["answer"], alone[1]["answer"])
    assert invalid["error"]["type"] == "invalid_request_error"


INVALID = [
    ({"question": "x"}, None, "expected inputs, got ['question']"),
    ({"inputs": {"question": "x"}}, "inputs", "inputs: expected an object with question and context"),
    ({"inputs": "x"}, "inputs", "inputs: expected an object with question and context"),
    ({"inputs": ASKED, "parameters": {"top_k": 0}}, "top_k", "top_k: expected a whole number from 1, got 0"),
    ({"inputs": ASKED, "parameters": {"topk": 1}}, "topk", "topk: not supported, did you mean top_k?"),
    (
        {"inputs": {"question": "x" * 80, "context": "y"}},
        "inputs",
        "inputs: 81 tokens of question; this model takes 64",
    ),
]


@pytest.mark.parametrize(
    ("body", "param", "message"), INVALID, ids=[message[:40] for _, _, message in INVALID]
)
def test_client_error_is_400_and_names_the_parameter(
    handler: Worker, body: object, param: str | None, message: str
) -> None:
    assert_refused(handler, body, param, message)


def test_codec_shows_answer_and_score(handler: Worker) -> None:
    body = json.dumps({"inputs": ASKED}).encode()
    (chunk,) = handle(handler, InferenceRequest(body=body), HANDLER)
    answer = handler.invoke({"inputs": ASKED}).json
    assert chunk.text == f"{answer['answer']} ({answer['score']:.4f})"
