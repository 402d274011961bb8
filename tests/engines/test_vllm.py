"""The recipe quickstart-vllm: real vLLM on this machine's processor, behind DJL's own asynchronous service."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from lmi_deploy.host.clock import SystemClock
from tests.e2e.conftest import Installed
from tests.engines.conftest import RECIPES

pytestmark = [pytest.mark.worker, pytest.mark.model]

RECIPE = str(RECIPES / "quickstart-vllm.yaml")
NAME = "quickstart-vllm"
CLOCK = SystemClock()
FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "rank": {"type": "integer"}},
    "required": ["city", "rank"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}


@dataclass(frozen=True)
class Served:
    lmi: Installed
    address: str
    events: list[dict[str, Any]]

    def post(self, body: dict[str, Any]) -> tuple[int, str]:
        data = json.dumps({"temperature": 0, **body}).encode()
        request = urllib.request.Request(self.address, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def answer(self, **body: Any) -> dict[str, Any]:
        status, text = self.post(body)
        assert status == 200, text
        found: dict[str, Any] = json.loads(text)["choices"][0]
        return found

    def chunks(self, **body: Any) -> list[dict[str, Any]]:
        status, text = self.post({**body, "stream": True})
        assert status == 200, text
        return [json.loads(line) for line in text.splitlines() if line]

    def processes(self) -> list[psutil.Process]:
        """The server, its worker, vLLM's engine and whatever they started."""
        [status] = [json.loads(line) for line in self.lmi.run("status", "--json", NAME).stdout.splitlines()]
        server = psutil.Process(status["server"]["pid"])
        return [server, *server.children(recursive=True)]


@pytest.fixture(scope="module")
def served(lmi: Installed) -> Served:
    done = lmi.run("up", "--yes", "--json", RECIPE)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (events[-1], done.stderr)
    return Served(lmi, events[-1]["address"], events)


def test_plan_says_which_vllm_runs_and_what_a_cpu_changes(served: Served) -> None:
    notices = " ".join(event["text"] for event in served.events if event["event"] == "notice")
    assert "vLLM 0.10.2 runs here" in notices
    assert "dtype: fp32 and enforce_eager: true, which only this machine gets" in notices


def test_chat_answers_correctly(served: Served) -> None:
    choice = served.answer(messages=FRANCE, max_tokens=12)
    assert choice["message"]["content"] == "The capital of France is Paris."


def test_completion_has_log_probabilities(served: Served) -> None:
    choice = served.answer(prompt="The capital of France is", max_tokens=3, logprobs=1)
    assert choice["text"].startswith(" Paris")
    assert len(choice["logprobs"]["token_logprobs"]) == 3


def test_request_of_lmi_is_answered(served: Served) -> None:
    parameters = {"max_new_tokens": 3, "temperature": 0}
    status, text = served.post({"inputs": "The capital of France is", "parameters": parameters})
    assert status == 200
    assert json.loads(text)["generated_text"].startswith(" Paris")


@pytest.mark.parametrize(
    "asked", [{"messages": FRANCE}, {"prompt": "The capital of France is"}], ids=["chat", "completion"]
)
def test_stream_has_the_text_of_the_whole_answer(served: Served, asked: dict[str, Any]) -> None:
    whole = served.answer(**asked, max_tokens=6)
    pieces = [chunk["choices"][0] for chunk in served.chunks(**asked, max_tokens=6)]
    text = "".join(piece.get("text") or piece.get("delta", {}).get("content") or "" for piece in pieces)
    assert text == (whole.get("text") or whole["message"]["content"])
    assert len(pieces) > 3


@pytest.mark.parametrize(
    "constraint",
    [
        {"guided_json": CITY},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}},
    ],
    ids=["guided_json", "response_format"],
)
def test_answer_obeys_a_json_schema(served: Served, constraint: dict[str, Any]) -> None:
    choice = served.answer(messages=FRANCE, max_tokens=60, **constraint)
    assert set(json.loads(choice["message"]["content"])) == {"city", "rank"}


def test_named_tool_is_called_with_arguments_of_its_schema(served: Served) -> None:
    named = {"type": "function", "function": {"name": "get_weather"}}
    choice = served.answer(messages=FRANCE, max_tokens=60, tools=[WEATHER], tool_choice=named)
    [call] = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert set(json.loads(call["function"]["arguments"])) == {"city", "rank"}


def test_sixteen_concurrent_requests_share_one_engine(served: Served) -> None:
    with ThreadPoolExecutor(16) as pool:
        choices = list(pool.map(lambda _: served.answer(messages=FRANCE, max_tokens=12), range(16)))
    assert {choice["message"]["content"] for choice in choices} == {"The capital of France is Paris."}
    names = [process.name() for process in served.processes()]
    assert len([name for name in names if "EngineCor" in name]) == 1


def test_too_long_request_is_explained(served: Served) -> None:
    done = served.lmi.run("invoke", NAME, "Hello", "-p", "max_tokens=5000")
    assert done.returncode == 1
    assert "exceed max_model_len" in done.stderr
    assert served.answer(messages=FRANCE, max_tokens=2)


def test_bf16_is_refused_before_anything_changes(served: Served) -> None:
    done = served.lmi.run("up", "--yes", RECIPE, "--set", "options.dtype=bf16")
    assert done.returncode == 2
    assert "answers wrongly in 16 bits" in done.stderr
    assert served.answer(messages=FRANCE, max_tokens=2)


def test_killed_server_leaves_no_process_of_vllm(served: Served) -> None:
    family = served.processes()
    assert any("EngineCor" in process.name() for process in family)
    os.kill(family[0].pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    assert served.lmi.run("down", "--yes", NAME).returncode == 0
