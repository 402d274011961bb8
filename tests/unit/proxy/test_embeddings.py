"""/v1/embeddings from what handlers answer."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest

from lmi_deploy.proxy.embeddings import translate_embeddings
from lmi_deploy.proxy.openai_error import OpenAIError
from tests.support.served_models import CUSTOM, EMBEDDING, JSON, VLLM, VLLM_EMBEDDING, served

ASKED: dict[str, Any] = {"model": "mine", "input": ["a", "b"]}
VECTORS = [[1.0, 2.5], [0.0, -1.0]]


def test_our_handler_is_sent_openais_form() -> None:
    translated = translate_embeddings(
        {**ASKED, "encoding_format": "base64", "user": "me"}, served(**EMBEDDING)
    )
    assert json.loads(translated.request.body) == {"input": ["a", "b"], "model": "mine"}


def test_lmi_is_sent_inputs_and_answers_with_vectors() -> None:
    translated = translate_embeddings({**ASKED, "truncate": True}, served(**VLLM_EMBEDDING))
    assert json.loads(translated.request.body) == {"inputs": ["a", "b"], "parameters": {"truncate": True}}
    body, usage = translated.whole(JSON, json.dumps(VECTORS).encode())
    found = json.loads(body)
    assert [each["embedding"] for each in found["data"]] == VECTORS
    assert [each["index"] for each in found["data"]] == [0, 1]
    assert (found["model"], usage) == ("mine", None)


def test_base64_is_of_little_endian_floats() -> None:
    translated = translate_embeddings({**ASKED, "encoding_format": "base64"}, served(**EMBEDDING))
    response = {"data": [{"embedding": each} for each in VECTORS], "usage": {"prompt_tokens": 4}}
    body, usage = translated.whole(JSON, json.dumps(response).encode())
    found = json.loads(body)
    assert [
        list(struct.unpack("<2f", base64.b64decode(each["embedding"]))) for each in found["data"]
    ] == VECTORS
    assert found["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    assert usage is not None
    assert usage.prompt == 4


def test_one_vector_is_taken_for_one_text() -> None:
    body, _ = translate_embeddings({**ASKED, "input": "a"}, served(**CUSTOM)).whole(JSON, b"[0.5, 1]")
    assert json.loads(body)["data"][0]["embedding"] == [0.5, 1]
    assert "usage" not in json.loads(body)


@pytest.mark.parametrize(
    ("changes", "fields", "words"),
    [
        ({"input": [[1, 2]]}, EMBEDDING, "check_embedding_ctx_length=False"),
        ({"input": []}, EMBEDDING, "expected a text or a list of texts"),
        ({"encoding_format": "hex"}, EMBEDDING, "expected float or base64"),
        ({"dimensions": 2}, VLLM_EMBEDDING, "vectors of one length"),
        ({}, VLLM, "does not embed: use /v1/chat/completions or /v1/completions"),
    ],
)
def test_requests_without_support_of_the_handler_are_refused(
    changes: dict[str, Any], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(OpenAIError, match=words) as refused:
        translate_embeddings({**ASKED, **changes}, served(**fields))
    assert refused.value.status == 400


@pytest.mark.parametrize("content", [b"[[1.0]]", b'"text"', b"no JSON", b'{"error": "no memory"}'])
def test_another_response_is_the_servers_error(content: bytes) -> None:
    with pytest.raises(OpenAIError) as failed:
        translate_embeddings(ASKED, served(**CUSTOM)).whole(JSON, content)
    assert failed.value.status == 502
