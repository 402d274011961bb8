"""The requests to a handler, and the decoding of its response, however the network splits it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.deployment_spec import HandlerSpec
from lmi_deploy.domain.inference_http import (
    Chunk,
    ImageFile,
    InferenceRequest,
    ResponseHead,
    Turn,
    image_type,
)
from lmi_deploy.domain.serving_record import LocalServing, ServingRecord
from lmi_deploy.engines import djl_huggingface
from lmi_deploy.engines.accelerate import engine as accelerate
from lmi_deploy.engines.custom import engine as custom
from lmi_deploy.engines.engine import Decoder, InferenceEngine
from lmi_deploy.engines.inference_codec import Codec, streams_adapters
from lmi_deploy.engines.vllm import engine as vllm
from lmi_deploy.errors import UsageRefused

OURS = HandlerSpec(entry_point="model.py", template="text-generation")
BUILTIN = HandlerSpec(entry_point=djl_huggingface.MODULE, template=None)
THEIRS = HandlerSpec(entry_point="model.py", template=None)
VLLM = HandlerSpec(entry_point=vllm.SERVICE, template=None)


def head(status: int = 200, kind: str = "application/json") -> ResponseHead:
    return ResponseHead(status=status, reason="whatever", headers=(("Content-Type", kind),))


def lines(*values: Any) -> bytes:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode()


def chunks_of(decoder: Decoder, *parts: bytes) -> list[Chunk]:
    return [chunk for part in parts for chunk in decoder.feed(part)] + decoder.close()


def sent(inference_request: InferenceRequest, handler: HandlerSpec = OURS) -> Any:
    request = accelerate.ENGINE.encode(inference_request, handler, "text-generation")
    assert request.headers == (("Content-Type", "application/json"),)
    return json.loads(request.body)


def read(
    body: bytes, *, handler: HandlerSpec = OURS, kind: str = "application/json", prompt: str = ""
) -> list[Chunk]:
    return chunks_of(
        accelerate.ENGINE.decoder(head(kind=kind), InferenceRequest(prompt=prompt), handler), body
    )


def test_prompt_becomes_a_chat_after_the_system_prompt() -> None:
    inference_request = InferenceRequest(
        prompt="Hi", system="Be short.", parameters={"max_new_tokens": 5, "seed": 1}
    )
    assert sent(inference_request) == {
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}],
        "max_tokens": 5,
        "seed": 1,
    }


def test_earlier_turns_and_images_are_messages_of_openai() -> None:
    png = ImageFile("image/png", b"\x89PNG")
    inference_request = InferenceRequest(
        prompt="And this?", system="Be short.", history=(Turn("Hi", "Hello."),), images=(png,)
    )
    request = vllm.ENGINE.encode(inference_request, VLLM, "text-generation")
    parts = [
        {"type": "text", "text": "And this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
    ]
    assert json.loads(request.body)["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": parts},
    ]


@pytest.mark.parametrize(
    ("template", "inference_request", "what"),
    [
        ("text-generation", InferenceRequest(images=(ImageFile("image/png", b"x"),)), "takes no images"),
        ("text2text-generation", InferenceRequest(images=(ImageFile("image/png", b"x"),)), "takes no images"),
        ("text-embedding", InferenceRequest(history=(Turn("Hi", "Hello."),)), "takes no conversations"),
        ("text-generation", InferenceRequest(adapter="sql"), "no adapters: its handler is text-generation"),
        ("text-generation", InferenceRequest(adapter="sql", body=b"{}"), "no adapters"),
    ],
)
def test_request_that_a_handler_would_ignore_is_refused(
    template: str, inference_request: InferenceRequest, what: str
) -> None:
    handler = HandlerSpec(entry_point="model.py", template=template)
    with pytest.raises(UsageRefused, match=what):
        accelerate.ENGINE.encode(inference_request, handler, None)


@pytest.mark.parametrize("engine", [vllm.ENGINE, custom.ENGINE])
def test_adapter_becomes_a_header(engine: InferenceEngine) -> None:
    handler = VLLM if engine is vllm.ENGINE else THEIRS
    request = Codec(engine, handler, None).encode(InferenceRequest(body=b"{}", adapter="sql", stream=True))
    assert request.headers[1:] == (("X-Amzn-SageMaker-Adapter-Identifier", "sql"),)
    assert (request.body, request.stream) == (b"{}", True)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"\xff\xd8\xff\xe0....", "image/jpeg"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\0\0\0WAVEfmt ", None),
        (b"GIF89a", None),
        (b"\x89PNG", None),
        (b"", None),
    ],
)
def test_image_is_known_by_its_first_bytes(data: bytes, kind: str | None) -> None:
    assert image_type(data) == kind


def test_prompt_without_chat_is_a_completion() -> None:
    assert sent(InferenceRequest(prompt="Hi", chat=False)) == {"prompt": "Hi"}


def test_stream_requests_usage_at_its_end() -> None:
    body = sent(InferenceRequest(prompt="Hi", chat=False, stream=True))
    assert body == {"prompt": "Hi", "stream": True, "stream_options": {"include_usage": True}}


def test_builtin_handler_never_gets_a_chat_body() -> None:
    body = sent(
        InferenceRequest(prompt="Hi", stream=True, parameters={"max_tokens": 5, "temperature": 0}), BUILTIN
    )
    assert body == {"inputs": "Hi", "parameters": {"max_new_tokens": 5, "do_sample": False}}


def test_temperature_enables_sampling_for_the_builtin_handler() -> None:
    body = sent(InferenceRequest(prompt="Hi", parameters={"temperature": 0.5}), BUILTIN)
    assert body == {"inputs": "Hi", "parameters": {"temperature": 0.5, "do_sample": True}}


@pytest.mark.parametrize(
    ("inference_request", "what"),
    [
        (InferenceRequest(prompt="Hi", system="Be short."), "a system prompt"),
        (InferenceRequest(prompt="Hi", history=(Turn("a", "b"),)), "earlier turns"),
        (InferenceRequest(prompt="Hi", images=(ImageFile("image/png", b"x"),)), "images"),
        (InferenceRequest(prompt="Hi", parameters={"seed": 1}), "the parameter seed"),
        (InferenceRequest(prompt="Hi", parameters={"stop": ["."]}), "the parameter stop"),
    ],
)
def test_request_the_builtin_handler_cannot_take_is_refused(
    inference_request: InferenceRequest, what: str
) -> None:
    with pytest.raises(UsageRefused, match=f"djl_python.huggingface cannot take {what}") as caught:
        accelerate.ENGINE.encode(inference_request, BUILTIN, "text-generation")
    assert "template text-generation" in caught.value.hint


@pytest.mark.parametrize("handler", [OURS, BUILTIN])
def test_given_body_is_sent_unchanged(handler: HandlerSpec) -> None:
    request = accelerate.ENGINE.encode(InferenceRequest(body=b"\0", content_type="image/png"), handler, None)
    assert (request.body, request.headers) == (b"\0", (("Content-Type", "image/png"),))


def test_custom_engine_accepts_only_a_body() -> None:
    assert custom.ENGINE.encode(InferenceRequest(body=b"x"), THEIRS, None).body == b"x"
    with pytest.raises(UsageRefused) as caught:
        custom.ENGINE.encode(InferenceRequest(prompt="Hi"), THEIRS, None)
    assert "--body" in caught.value.hint


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {
                "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
                "usage": {"completion_tokens": 3},
            },
            Chunk(text="Hi", tokens=3, finish="stop"),
        ),
        ({"choices": [{"text": "a"}, {"text": "b"}]}, Chunk(text="a\nb")),
        ({"generated_text": "Hi"}, Chunk(text="Hi")),
        (
            {"generated_text": "Hi", "details": {"finish_reason": "length", "generated_tokens": 2}},
            Chunk(text="Hi", tokens=2, finish="length"),
        ),
        ([{"generated_text": "a"}, {"generated_text": "b"}], Chunk(text="a\nb")),
        ([[0.5, 1]], Chunk(text="[[0.5, 1]]")),
        ({"error": {"message": "no"}}, Chunk(error="no")),
    ],
)
def test_unary_response_is_one_chunk(body: Any, expected: Chunk) -> None:
    assert read(json.dumps(body).encode()) == [expected]


def test_empty_response_has_no_chunks() -> None:
    assert read(b"") == []
    assert read(b"", kind="application/jsonlines") == []


def test_text_that_is_not_json_is_shown_unchanged() -> None:
    assert read(b"hello") == [Chunk(text="hello")]


CHAT = lines(
    {"choices": [{"delta": {"role": "assistant", "content": "Grü"}, "finish_reason": None}]},
    {"choices": [{"delta": {"content": "ße 😀"}, "finish_reason": None}]},
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"completion_tokens": 4}},
)
CHAT_PIECES = [
    Chunk(text="Grü", tokens=1),
    Chunk(text="ße 😀", tokens=1),
    Chunk(finish="stop"),
    Chunk(tokens=2),
]


@given(cuts=st.lists(st.integers(0, len(CHAT)), max_size=8))
def test_decoded_chunks_do_not_depend_on_network_boundaries(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(CHAT)]
    parts = [CHAT[start:end] for start, end in pairwise(edges)]
    decoder = accelerate.ENGINE.decoder(head(kind="application/jsonlines"), InferenceRequest(), OURS)
    assert chunks_of(decoder, *parts) == CHAT_PIECES


def test_json_lines_in_a_unary_response_are_decoded() -> None:
    assert read(CHAT) == CHAT_PIECES


def test_token_lines_are_decoded() -> None:
    body = lines(
        {"token": {"id": 1, "text": "a", "log_prob": -0.1}},
        {"token": {"id": 2, "text": "b"}, "generated_text": "ab", "details": {"finish_reason": "length"}},
    )
    assert read(body, kind="application/jsonlines") == [
        Chunk(text="a", tokens=1),
        Chunk(text="b", tokens=1, finish="length"),
    ]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_broken_stream_ends_with_the_reason(end: bytes) -> None:
    first = lines({"choices": [{"text": "a"}]})
    assert read(first + b"out of luck" + end, kind="application/jsonlines") == [
        Chunk(text="a", tokens=1),
        Chunk(error="out of luck"),
    ]
    assert read(first + b'{"error": {"message": "no"}}' + end, kind="application/jsonlines")[1:] == [
        Chunk(error="no")
    ]


def test_prompt_repeated_by_the_builtin_handler_is_removed() -> None:
    content = json.dumps([{"generated_text": "The sky is blue"}]).encode()
    assert read(content, handler=BUILTIN, prompt="The sky") == [Chunk(text=" is blue")]
    stream = lines({"outputs": ["The sky"]}, {"outputs": [" is"]}, {"outputs": "seed is not used"})
    assert read(stream, handler=BUILTIN, kind="application/jsonlines", prompt="The sky") == [
        Chunk(text=" is", tokens=1),
        Chunk(error="seed is not used"),
    ]


@pytest.mark.parametrize(
    ("body", "output"),
    [
        ({"code": 424, "message": "invoke handler failure", "error": "KeyError('x')"}, "424: KeyError('x')"),
        ({"code": 424, "type": "ModelException", "message": "busy"}, "424: busy"),
        ({"error": {"message": "n: only 1", "param": "n"}}, "424: n: only 1"),
    ],
)
def test_error_shows_status_and_reason(body: Any, output: str) -> None:
    for engine in (accelerate.ENGINE, custom.ENGINE):
        decoder = engine.decoder(head(424), InferenceRequest(), THEIRS)
        assert chunks_of(decoder, json.dumps(body).encode()) == [Chunk(error=output)]


def test_error_without_a_body_shows_the_status_line_reason() -> None:
    assert chunks_of(accelerate.ENGINE.decoder(head(413), InferenceRequest(), OURS)) == [
        Chunk(error="413: whatever")
    ]


def test_custom_response_is_decoded_as_utf_8_text() -> None:
    decoder = custom.ENGINE.decoder(head(kind="text/plain"), InferenceRequest(), THEIRS)
    assert chunks_of(decoder, "ü".encode()[:1], "ü".encode()[1:]) == [Chunk(text="ü")]


@pytest.mark.parametrize(
    ("image", "streams"),
    [
        ("", False),
        ("763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.34.0-lmi16.0.0-cu128", False),
        ("763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.36.0-lmi27.0.0-cu130", True),
        ("111122223333.dkr.ecr.us-east-1.amazonaws.com/own:1", True),
    ],
)
def test_adapters_of_old_vllm_services_do_not_stream(image: str, streams: bool) -> None:
    place = LocalServing(environment="e", runtime="embedded", image=image, address="", wait_timeout=0)
    serving = ServingRecord(
        model="org/m",
        commit="c",
        engine="vllm",
        task="text-generation",
        handler=vllm.SERVICE,
        template="",
        tensor_parallel_degree=1,
        weights="w",
        artifact="a",
        place=place,
        probe=None,
        environment=(),
        properties=(),
    )
    assert streams_adapters(serving) is streams
    assert streams_adapters(replace(serving, engine="custom", handler="model.py"))
