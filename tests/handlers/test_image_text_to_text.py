"""The handler of vision-language models in DJL's real worker, on a tiny LLaVA whose answers are nonsense but exact."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from lmi_deploy.domain.inference_http import ImageFile, InferenceRequest
from tests.handlers.handler_worker import (
    assert_adapter_refused,
    assert_refused,
    handle,
    serving,
    template,
    worker,
)
from tests.support.handler_driver import EVENTS, Worker, read_events
from tests.support.sample_model import cached_tiny

pytestmark = [pytest.mark.model, pytest.mark.landing]
HANDLER = template("image-text-to-text")


def png(color: tuple[int, int, int]) -> bytes:
    """16 by 16 pixels of one color."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(color) * 16 for _ in range(16))
    head = struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


RED, BLUE = (
    f"data:image/png;base64,{base64.b64encode(png(color)).decode()}" for color in ((255, 0, 0), (0, 0, 255))
)


def chat(*urls: str, **more: Any) -> dict[str, Any]:
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content = [{"type": "text", "text": "What?"}, *parts]
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 6, **more}


@pytest.fixture(scope="module")
def handler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("sees"), HANDLER) as running:
        model = cached_tiny(serving(HANDLER), "image-text-to-text")
        assert running.load(model_id=model, served_model_name="tiny").code == 204
        assert any("an image and 2 tokens" in line for line in running.log)
        yield running


def test_a_request_for_an_adapter_is_refused(handler: Worker) -> None:
    assert_adapter_refused(handler, chat(RED))


def test_chat_with_an_image_is_an_openai_chat_completion(handler: Worker) -> None:
    response = handler.invoke(chat(RED)).json
    assert (response["object"], response["model"]) == ("chat.completion", "tiny")
    (choice,) = response["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] in ("stop", "length")
    assert 1 <= response["usage"]["completion_tokens"] <= 6


def test_the_image_is_part_of_the_prompt(handler: Worker) -> None:
    """Four patches of the tiny tower are four tokens."""
    tokens = [
        handler.invoke(chat(*urls)).json["usage"]["prompt_tokens"] for urls in ((), (RED,), (RED, BLUE))
    ]
    assert [tokens[1] - tokens[0], tokens[2] - tokens[1]] == [4, 4]


def test_inputs_with_images_is_the_form_of_lmi(handler: Worker) -> None:
    body = {"inputs": "What?", "images": [RED], "parameters": {"max_new_tokens": 6}}
    assert set(handler.invoke(body).json) == {"generated_text"}


@pytest.mark.parametrize("events", [False, True])
def test_stream_is_the_same_text_as_the_whole_answer(handler: Worker, events: bool) -> None:
    expected = handler.invoke(chat(RED)).json["choices"][0]["message"]["content"]
    body = chat(RED, stream=True, stream_options={"include_usage": True})
    reply = handler.invoke(body, EVENTS) if events else handler.invoke(body)
    parts = read_events(reply.body) if events else reply.lines
    text = "".join(part["choices"][0]["delta"].get("content", "") for part in parts if part["choices"])
    assert text == expected
    assert parts[-1]["usage"]["completion_tokens"] >= 1


def test_batched_requests_are_answered_separately(handler: Worker) -> None:
    reply = handler.invoke_batch([chat(RED), b"{", chat(BLUE)])
    assert reply.code == 200
    assert b"chat.completion" in reply.items[0]
    assert b"invalid_request_error" in reply.items[1]
    assert b"chat.completion" in reply.items[2]


URL = "messages[0].content.image_url.url"
INVALID = [
    ({"prompt": "x"}, None, "expected messages or inputs, got ['prompt']"),
    (
        chat("https://example.com/cat.png"),
        URL,
        f"{URL}: expected a data: URL in base64 (this handler fetches nothing)",
    ),
    (chat("data:image/png;base64,AAAA"), URL, f"{URL}: no image in PNG, JPEG, WEBP"),
    (chat(RED, max_tokens=0), "max_tokens", "max_tokens: expected a whole number from 1"),
    (chat(RED, max_tokens=500), "max_tokens", "max_tokens: "),
    (chat(RED, stop=["x"]), "stop", "stop: not supported"),
    ({"inputs": "x", "images": "y"}, "images", "images: expected a list of at most 16 data: URLs"),
    (chat(*[RED] * 17), "messages", "messages: 17 images; at most 16"),
]


@pytest.mark.parametrize(
    ("body", "param", "message"), INVALID, ids=[message[:40] for _, _, message in INVALID]
)
def test_client_error_is_400_and_names_the_parameter(
    handler: Worker, body: object, param: str | None, message: str
) -> None:
    assert_refused(handler, body, param, message)


def test_codec_sends_the_image_and_reads_the_text(handler: Worker) -> None:
    request = InferenceRequest(
        prompt="What?", images=(ImageFile("image/png", png((255, 0, 0))),), parameters={"max_tokens": 6}
    )
    found = "".join(chunk.text for chunk in handle(handler, request, HANDLER))
    assert found == handler.invoke(chat(RED)).json["choices"][0]["message"]["content"]
