"""Engine vllm: properties, requests and decoding of responses, by the server's version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lmi_deploy.catalog import images, options
from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import HandlerSpec
from lmi_deploy.domain.inference_http import Chunk, InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_keys import Handler, Task
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.inference_codec import codec_of
from lmi_deploy.engines.vllm import engine as vllm
from lmi_deploy.errors import Unresolvable
from tests.support.factories import LOCAL, serving

SERVICE = HandlerSpec(entry_point=vllm.SERVICE, template=None)
ROLLING = HandlerSpec(entry_point=vllm.ROLLING, template=None)
OWN = HandlerSpec(entry_point="model.py", template=None)


def lines_of(handler: HandlerSpec, *given: tuple[str, str], task: Task | None = "text-generation") -> Any:
    return vllm.ENGINE.properties(EngineInputs(handler, given, task=task, tensor_parallel_degree=4))


def sent(
    inference_request: InferenceRequest, handler: HandlerSpec = SERVICE, task: Task | None = "text-generation"
) -> Any:
    request = vllm.ENGINE.encode(inference_request, handler, task)
    assert request.headers == (("Content-Type", "application/json"),)
    return json.loads(request.body)


def read(body: bytes, kind: str, *, status: int = 200, cut: int = 7) -> list[Chunk]:
    head = ResponseHead(status=status, reason="whatever", headers=(("Content-Type", kind),))
    decoder = vllm.ENGINE.decoder(head, InferenceRequest(), SERVICE)
    parts = [body[at : at + cut] for at in range(0, len(body), cut)]
    return [chunk for part in parts for chunk in decoder.feed(part)] + decoder.close()


@pytest.mark.parametrize(
    ("version", "entry_point"),
    [
        ("", vllm.SERVICE),
        ("latest", vllm.SERVICE),
        ("0.38.0", vllm.SERVICE),
        ("0.36.0-lmi20", vllm.SERVICE),
        ("0.35.0", vllm.SERVICE),
        ("0.34.0", vllm.ROLLING),
        ("0.28.0", vllm.ROLLING),
    ],
)
def test_handler_follows_from_the_server_version(version: str, entry_point: str) -> None:
    chosen = vllm.ENGINE.handler(Handler(), "text-generation", version=version)
    assert chosen == HandlerSpec(entry_point=entry_point, template=None)


def test_every_published_version_knows_its_handler_and_options() -> None:
    for version in images.versions(vllm.ENGINE.family):
        chosen = vllm.ENGINE.handler(Handler(), "text-generation", version=version)
        written = [key.removeprefix("option.") for key, _ in lines_of(chosen) if key.startswith("option.")]
        known = {name: options.option_status("vllm", name, version).state for name in written}
        assert set(known.values()) == {"known"}, (version, known)


def test_recipe_can_choose_the_handler() -> None:
    assert vllm.ENGINE.handler(Handler(builtin=vllm.ROLLING), None) == ROLLING
    assert vllm.ENGINE.handler(Handler(file="mine.py"), None) == OWN


def test_unsupported_template_or_task_is_refused_with_an_alternative() -> None:
    for wish, task in ((Handler(template="text-generation"), None), (Handler(), "question-answering")):
        with pytest.raises(Unresolvable) as caught:
            vllm.ENGINE.handler(wish, task)
        assert "engine: accelerate" in caught.value.hint


def test_embedding_on_an_older_server_is_refused() -> None:
    assert vllm.ENGINE.handler(Handler(), "text-embedding", version="0.36.0") == SERVICE
    with pytest.raises(Unresolvable, match=r"server 0\.35\.0 cannot embed") as caught:
        vllm.ENGINE.handler(Handler(), "text-embedding", version="0.35.0")
    assert "0.36.0" in caught.value.hint


def test_properties_of_the_async_service() -> None:
    assert lines_of(SERVICE) == (
        ("engine", "Python"),
        ("option.entryPoint", "djl_python.lmi_vllm.vllm_async_service"),
        ("option.model_id", SLOT),
        ("option.async_mode", "true"),
        ("option.rolling_batch", "disable"),
        ("option.tensor_parallel_degree", "4"),
    )


def test_properties_of_the_rolling_batch() -> None:
    assert lines_of(ROLLING)[1:] == (
        ("option.entryPoint", "djl_python.huggingface"),
        ("option.model_id", SLOT),
        ("option.rolling_batch", "vllm"),
        ("option.tensor_parallel_degree", "4"),
    )


def test_options_replace_default_properties_or_follow_unchanged() -> None:
    found = lines_of(SERVICE, ("max_model_len", "4096"), ("speculative_config", '{"a": 1}'))
    assert found[-2:] == (("option.max_model_len", "4096"), ("option.speculative_config", '{"a": 1}'))
    replaced = dict(lines_of(SERVICE, ("tensor_parallel_degree", "2")))
    assert replaced["option.tensor_parallel_degree"] == "2"


@pytest.mark.parametrize("given", [("async_mode", "false"), ("rolling_batch", "vllm")])
def test_options_that_contradict_the_handler_are_refused(given: tuple[str, str]) -> None:
    with pytest.raises(
        Unresolvable, match=f"options.{given[0]}: {given[1]} cannot be combined with"
    ) as caught:
        lines_of(SERVICE, given)
    assert "djl_python.huggingface" in caught.value.hint
    assert dict(lines_of(OWN, given))[f"option.{given[0]}"] == given[1]


def test_embedding_model_gets_its_task_and_probe() -> None:
    assert dict(lines_of(SERVICE, task="text-embedding"))["option.task"] == "text-embedding"
    assert sent(InferenceRequest(prompt="OK"), task="text-embedding") == {"inputs": "OK"}
    probe = vllm.ENGINE.probe(SERVICE, "text-embedding")
    assert probe is not None
    assert sent(probe, task="text-embedding") == {"inputs": "OK"}


def test_vllm_needs_no_packages() -> None:
    assert vllm.ENGINE.packages(SERVICE) == ()


def test_default_probe_is_a_short_greedy_chat() -> None:
    probe = vllm.ENGINE.probe(SERVICE, "text-generation")
    assert probe is not None
    assert sent(probe) == {
        "messages": [{"role": "user", "content": "Say OK"}],
        "max_tokens": 8,
        "temperature": 0,
    }


def test_chat_stream_requests_usage() -> None:
    assert sent(InferenceRequest(prompt="Hi", stream=True, parameters={"max_new_tokens": 5})) == {
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_request_without_chat_is_a_completion_or_an_lmi_request() -> None:
    requests = InferenceRequest(prompt="Hi", chat=False, stream=True, parameters={"max_tokens": 5})
    assert sent(requests)["prompt"] == "Hi"
    assert sent(requests, ROLLING) == {"inputs": "Hi", "parameters": {"max_new_tokens": 5}, "stream": True}


def test_given_body_is_sent_unchanged() -> None:
    request = vllm.ENGINE.encode(InferenceRequest(body=b"{}", content_type="text/x"), SERVICE, None)
    assert (request.body, request.headers) == (b"{}", (("Content-Type", "text/x"),))


CHUNKS = [
    {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Grüße"}}]},
    {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "!"}, "finish_reason": "stop"}]},
    {"object": "chat.completion.chunk", "choices": [], "usage": {"completion_tokens": 3}},
]  # fmt: skip
SHOWN = [Chunk(text="Grüße", tokens=1), Chunk(text="!", tokens=1, finish="stop"), Chunk(tokens=1)]


def test_chat_stream_of_the_service_is_decoded() -> None:
    """OpenAI's chunks, a line each, without `data:` and without an end mark."""
    body = "".join(json.dumps(chunk, ensure_ascii=False) + "\n" for chunk in CHUNKS).encode()
    assert read(body, "application/jsonlines") == SHOWN


def test_server_sent_events_are_decoded() -> None:
    events = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in CHUNKS]
    body = ": hello\nevent: message\n" + "".join(events) + "data: [DONE]\n\n"
    assert read(body.encode(), "text/event-stream; charset=utf-8") == SHOWN


def test_broken_event_stream_ends_with_the_reason() -> None:
    first = json.dumps({"choices": [{"delta": {"content": "a"}}]})
    assert read(f"data: {first}\n\nout of memory".encode(), "text/event-stream") == [
        Chunk(text="a", tokens=1),
        Chunk(error="out of memory"),
    ]


def test_token_lines_are_decoded() -> None:
    """`inputs` with `stream`, in asynchronous mode."""
    tokens = [
        {"index": 0, "token": {"id": 1, "text": "a", "logprob": -0.1}},
        {
            "index": 1,
            "token": {"id": 2, "text": "b", "logprob": -0.2},
            "generated_text": "ab",
            "details": {"finish_reason": "length", "generated_tokens": 2},
        },
    ]
    body = "".join(json.dumps(token) + "\n" for token in tokens).encode()
    assert read(body, "application/jsonlines") == [
        Chunk(text="a", tokens=1),
        Chunk(text="b", tokens=1, finish="length"),
    ]


def test_unary_responses_are_decoded() -> None:
    chat = {
        "object": "chat.completion",
        "choices": [{"message": {"role": "assistant", "content": "OK."}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 2},
    }
    assert read(json.dumps(chat).encode(), "application/json") == [Chunk(text="OK.", tokens=2, finish="stop")]
    generated = {"generated_text": "OK", "details": {"finish_reason": "length", "generated_tokens": 1}}
    assert read(json.dumps(generated).encode(), "application/json") == [
        Chunk(text="OK", tokens=1, finish="length")
    ]


def test_error_response_is_decoded() -> None:
    body = json.dumps({"error": "max_tokens must be at least 1", "code": 424}).encode()
    assert read(body, "application/json", status=424) == [Chunk(error="424: max_tokens must be at least 1")]


def test_codec_is_found_from_a_record() -> None:
    codec = codec_of(serving(LOCAL, engine="vllm", handler=vllm.SERVICE, template=""), "chat")
    assert (codec.engine.name, codec.handler, codec.task) == ("vllm", SERVICE, "text-generation")
