"""Engine vllm with DJL's own asynchronous service; only vLLM itself is a stand-in."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lmi_deploy.domain.inference_http import ADAPTER_HEADER, Chunk, InferenceRequest, ResponseHead
from lmi_deploy.engines.vllm import engine as vllm
from tests.support.adapters import write_adapter
from tests.support.running_server import RunningServer
from tests.support.vllm_server import HANDLER, vllm_server

pytestmark = pytest.mark.worker


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with vllm_server(tmp_path_factory.mktemp("model")) as running:
        yield running


def invoke(served: RunningServer, inference_request: InferenceRequest) -> list[Chunk]:
    request = vllm.ENGINE.encode(inference_request, HANDLER, "text-generation")
    connection = served.connect()
    connection.request("POST", "/invocations", request.body, dict(request.headers))
    response = connection.getresponse()
    head = ResponseHead(status=response.status, reason=response.reason, headers=tuple(response.getheaders()))
    decoder = vllm.ENGINE.decoder(head, inference_request, HANDLER)
    chunks = [chunk for part in iter(lambda: response.read1(5), b"") for chunk in decoder.feed(part)]
    return chunks + decoder.close()


def test_vllm_is_started_with_the_options_of_the_recipe(served: RunningServer) -> None:
    (line,) = [each for each in served.text.splitlines() if "vLLM was started with" in each]
    started = json.loads(line.partition("started with ")[2])
    assert (started["tensor_parallel_size"], started["max_model_len"]) == ("1", "4096")


def test_probe_is_answered(served: RunningServer) -> None:
    probe = vllm.ENGINE.probe(HANDLER, "text-generation")
    assert probe is not None
    assert invoke(served, probe) == [
        Chunk(text="Paris is the capital.", tokens=5, input_tokens=3, finish="stop")
    ]


@pytest.mark.parametrize("chat", [True, False])
def test_stream_is_decoded_chunk_by_chunk(served: RunningServer, chat: bool) -> None:
    chunks = invoke(
        served, InferenceRequest(prompt="Which?", chat=chat, stream=True, parameters={"max_tokens": 3})
    )
    assert [chunk.text for chunk in chunks if chunk.text] == ["Paris", " is", " the"]
    assert sum(chunk.tokens for chunk in chunks) == 3
    assert [chunk.finish for chunk in chunks if chunk.finish] == ["length"]


def test_completion_is_decoded(served: RunningServer) -> None:
    chunks = invoke(
        served, InferenceRequest(prompt="The", chat=False, parameters={"max_new_tokens": 2, "temperature": 0})
    )
    assert chunks == [Chunk(text="Paris is", tokens=2, input_tokens=3, finish="length")]


@pytest.mark.parametrize("stream", [False, True])
def test_lmi_request_form_is_decoded(served: RunningServer, stream: bool) -> None:
    body = {"inputs": "The", "parameters": {"max_new_tokens": 2, "details": True}, "stream": stream}
    chunks = invoke(served, InferenceRequest(body=json.dumps(body).encode()))
    assert [chunk.error for chunk in chunks if chunk.error] == []
    assert "".join(chunk.text for chunk in chunks) == "Paris is"
    assert sum(chunk.tokens for chunk in chunks) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_error_of_vllm_is_reported_with_its_message(served: RunningServer, stream: bool) -> None:
    chunks = invoke(served, InferenceRequest(prompt="Hi", stream=stream, parameters={"max_tokens": 0}))
    assert "max_tokens must be at least 1" in "".join(chunk.error for chunk in chunks)
    chunks = invoke(served, InferenceRequest(prompt="Hi", stream=stream, parameters={"model": "another"}))
    assert "`another` does not exist" in "".join(chunk.error for chunk in chunks)


def test_adapters_beside_the_model_are_registered_and_selected_by_header(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("adapted")
    write_adapter(folder / "adapters" / "sql")
    with vllm_server(folder, ("enable_lora", "true")) as running:
        assert status(running, "sql") == 200
        assert status(running, "other") == 424
        assert "Available adapters: ['sql']" in running.text


def status(running: RunningServer, adapter: str) -> int:
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
    connection = running.connect()
    headers = {"Content-Type": "application/json", ADAPTER_HEADER: adapter}
    connection.request("POST", "/invocations", body, headers)
    return connection.getresponse().status
