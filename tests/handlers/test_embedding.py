"""The embedding handler in DJL's real worker: all-MiniLM-L6-v2, whose vectors mean something, and a tiny random one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

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
from tests.support.sample_model import cached_embedding_model, cached_tiny

pytestmark = pytest.mark.model
HANDLER = template("text-embedding")


CAT, KITTEN, TAX = "A cat sits on the mat.", "A kitten is lying on a rug.", "The tax return is due in May."


@pytest.fixture(scope="module")
def handler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("minilm"), HANDLER) as running:
        assert (
            running.load(model_id=cached_embedding_model(serving()), served_model_name="minilm").code == 204
        )
        assert any("a vector of 384 numbers (mean)" in line for line in running.log)
        yield running


def vectors(handler: Worker, *texts: str, **parameters: object) -> list[list[float]]:
    reply = handler.invoke({"inputs": list(texts), "parameters": parameters})
    assert reply.code == 200, reply.body
    found: list[list[float]] = reply.json
    return found


def product(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_a_request_for_an_adapter_is_refused(handler: Worker) -> None:
    assert_adapter_refused(handler, {"inputs": CAT})


def test_similar_texts_have_similar_vectors(handler: Worker) -> None:
    cat, kitten, tax = vectors(handler, CAT, KITTEN, TAX)
    assert len(cat) == 384
    assert product(cat, kitten) > 0.5 > 0.2 > product(cat, tax)


def test_vectors_are_normalized_unless_disabled(handler: Worker) -> None:
    assert all(math.isclose(product(each, each), 1, abs_tol=1e-4) for each in vectors(handler, CAT, TAX))
    (long,) = vectors(handler, CAT, normalize=False)
    assert product(long, long) > 1.5


def test_one_text_gives_an_array_with_one_vector(handler: Worker) -> None:
    (vector,) = handler.invoke({"inputs": CAT}).json
    assert vector == pytest.approx(vectors(handler, CAT)[0], abs=1e-5)


def test_openai_request_gets_an_openai_response(handler: Worker) -> None:
    response = handler.invoke({"input": [CAT, TAX], "model": "mine", "encoding_format": "float"}).json
    assert (response["object"], response["model"]) == ("list", "mine")
    assert [each["index"] for each in response["data"]] == [0, 1]
    assert response["data"][1]["embedding"] == pytest.approx(vectors(handler, TAX)[0], abs=1e-5)
    assert response["usage"]["prompt_tokens"] > 10


def test_vectors_do_not_depend_on_the_batch(handler: Worker) -> None:
    texts = [CAT, "x", TAX * 5] * 12
    for vector, text in zip(vectors(handler, *texts)[:3], texts, strict=False):
        assert vector == pytest.approx(vectors(handler, text)[0], abs=1e-5)


def test_batched_requests_are_answered_separately(handler: Worker) -> None:
    reply = handler.invoke_batch([{"inputs": CAT}, b"{", {"inputs": [TAX, "x"]}, {"input": CAT}])
    assert reply.code == 200
    one, invalid, two, openai = map(json.loads, reply.items)
    assert one[0] == pytest.approx(vectors(handler, CAT)[0], abs=1e-5)
    assert invalid["error"]["type"] == "invalid_request_error"
    assert len(two) == 2
    assert openai["data"][0]["embedding"] == pytest.approx(one[0], abs=1e-5)


INVALID = [
    (b"{", None, "the body is not JSON in UTF-8"),
    ({}, None, "expected inputs or input, got an empty object"),
    ({"inputs": ""}, "inputs", "inputs: expected a text or a list of texts"),
    ({"inputs": []}, "inputs", "inputs: expected a text or a list of texts"),
    ({"inputs": [1]}, "inputs", "inputs: expected a text or a list of texts"),
    ({"inputs": CAT, "parameter": {}}, "parameter", "parameter: not supported, did you mean parameters?"),
    ({"inputs": CAT, "parameters": {"normalise": True}}, "normalise", "normalise: not supported, did you mean norm"),
    ({"inputs": CAT, "parameters": {"normalize": 1}}, "normalize", "normalize: expected true or false, got 1"),
    ({"input": CAT, "encoding_format": "base64"}, "encoding_format", 'encoding_format: only "float" is supported here'),
    ({"input": CAT, "dimensions": 5}, "dimensions", "dimensions: not supported"),
    ({"inputs": "word " * 300}, "inputs", "inputs: 302 tokens; this model takes from 1 to 256, or truncate: true"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "param", "message"), INVALID, ids=[message[:40] for _, _, message in INVALID]
)
def test_client_error_is_400_and_names_the_parameter(
    handler: Worker, body: object, param: str | None, message: str
) -> None:
    assert_refused(handler, body, param, message)


def test_long_text_is_truncated_on_request(handler: Worker) -> None:
    (vector,) = vectors(handler, "word " * 300, truncate=True)
    assert len(vector) == 384


def test_codec_shows_the_vectors(handler: Worker) -> None:
    (chunk,) = handle(handler, InferenceRequest(prompt=CAT, stream=True), HANDLER)
    assert json.loads(chunk.text)[0] == pytest.approx(vectors(handler, CAT)[0], abs=1e-5)


@pytest.mark.long  # five processes, each of which imports torch
def test_pooling_is_read_from_the_model_or_the_options(tmp_path: Path) -> None:
    tiny = cached_tiny(serving(), "text-embedding")
    found = []
    for pooling in ("mean", "cls", "max", "lasttoken"):
        with worker(tmp_path / pooling, HANDLER) as running:
            assert running.load(model_id=tiny, pooling=pooling, normalize="true").code == 204
            (vector,) = vectors(running, "Hello")
            assert product(vector, vector) == pytest.approx(1, abs=1e-4)
            found.append(tuple(vector))
            if pooling == "max":
                assert running.invoke({"inputs": ["Hello", "Hello you"]}).json[0] == pytest.approx(
                    vector, abs=1e-5
                )
    assert len(set(found)) == 4
    with worker(tmp_path / "bad", HANDLER) as running:
        assert "option.pooling: sum is not known" in running.load(model_id=tiny, pooling="sum").json["error"]
