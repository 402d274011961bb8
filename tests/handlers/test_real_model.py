"""The text generation handler with a model that makes sense."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.handlers.handler_worker import serving, worker
from tests.support.handler_driver import Worker
from tests.support.sample_model import cached_sample_model

pytestmark = [pytest.mark.model, pytest.mark.landing]

PROMPT = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 24}


@pytest.fixture(scope="module")
def handler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    model = cached_sample_model(serving())
    with worker(tmp_path_factory.mktemp("real")) as running:
        assert running.load(model_id=model).code == 204
        yield running


def test_model_answers_and_stops(handler: Worker) -> None:
    response = handler.invoke(PROMPT).json
    assert "Paris" in response["choices"][0]["message"]["content"]
    assert response["choices"][0]["finish_reason"] == "stop"
    assert response["usage"]["completion_tokens"] < 24


def test_stream_has_the_same_text_as_the_response(handler: Worker) -> None:
    lines = handler.invoke({**PROMPT, "stream": True}).lines
    messages = [line["choices"][0]["delta"].get("content", "") for line in lines]
    assert "".join(messages) == handler.invoke(PROMPT).json["choices"][0]["message"]["content"]
    assert len([word for word in messages if word]) > 3


def test_plain_prompt_is_continued(handler: Worker) -> None:
    reply = handler.invoke({"prompt": "One, two, three, four,", "max_tokens": 12, "stop": "seven"}).json
    assert reply["choices"][0] == {
        "index": 0,
        "text": " five, six, ",
        "logprobs": None,
        "finish_reason": "stop",
    }


def test_batched_prompts_give_the_same_answers_as_single_ones(handler: Worker) -> None:
    bodies = [PROMPT, {"prompt": "One, two, three, four,", "max_tokens": 6}, {**PROMPT, "max_tokens": 3}]
    alone = [handler.invoke(body).json["choices"] for body in bodies]
    assert [json.loads(item)["choices"] for item in handler.invoke_batch(bodies).items] == alone
