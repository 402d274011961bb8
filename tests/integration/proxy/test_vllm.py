"""The proxy before DJL's own service of vLLM, which knows only its own model names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.proxy_process import RunningProxy, proxy, write_record
from tests.support.vllm_server import HANDLER, vllm_server

pytestmark = pytest.mark.worker


@pytest.fixture(scope="module")
def paris(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningProxy]:
    home: Path = tmp_path_factory.mktemp("home")
    with vllm_server(tmp_path_factory.mktemp("model")) as served:
        write_record(home, "paris", served.port, engine="vllm", handler=HANDLER.entry_point, template="")
        with proxy(home) as running:
            yield running


def test_chat_has_the_name_of_the_deployment(paris: RunningProxy) -> None:
    response = paris.chat("Which?", model="paris", max_tokens=5)
    assert response.status == 200
    assert response.json["model"] == "paris"
    assert response.json["choices"][0]["message"]["content"] == "Paris is the capital."


def test_stream_of_lines_becomes_events(paris: RunningProxy) -> None:
    usage = {"include_usage": True}
    response = paris.chat("Which?", model="paris", stream=True, max_tokens=3, stream_options=usage)
    assert response.text == "Paris is the"
    assert response.events[-2]["usage"]["completion_tokens"] == 3
    assert response.events[-1] == "[DONE]"


def test_completion_is_passed_on(paris: RunningProxy) -> None:
    response = paris.post("/v1/completions", {"model": "paris", "prompt": "The", "max_tokens": 2})
    assert response.json["choices"][0]["text"] == "Paris is"


@pytest.mark.parametrize("stream", [False, True])
def test_mistake_keeps_the_status_of_vllm(paris: RunningProxy, stream: bool) -> None:
    response = paris.chat("Which?", model="paris", max_tokens=0, stream=stream)
    assert response.status in (400, 424)
    assert "max_tokens must be at least 1" in response.json["error"]["message"]


def test_response_is_made_of_a_chat(paris: RunningProxy) -> None:
    response = paris.post("/v1/responses", {"model": "paris", "input": "Which?", "max_output_tokens": 3})
    assert response.json["status"] == "incomplete"
    assert response.json["output"][0]["content"][0]["text"] == "Paris is the"
