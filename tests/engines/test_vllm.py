"""The recipe quickstart-vllm: real vLLM on this machine's processor, behind DJL's own asynchronous service."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
from array import array
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from lmi_deploy.host.clock import SystemClock
from tests.e2e.conftest import Installed
from tests.engines.conftest import RECIPES

pytestmark = [pytest.mark.worker, pytest.mark.model, pytest.mark.landing]

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
DRAFT = {"model": "HuggingFaceTB/SmolLM2-135M-Instruct", "num_speculative_tokens": 3}
NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}


def write_noise(folder: Path) -> None:
    """A LoRA adapter for SmolLM2-135M as PEFT writes it, with random numbers large enough to change its answers."""
    random = Random(1)
    header: dict[str, Any] = {}
    content = b""
    for layer in range(30):
        for part, shape in (("lora_A", (8, 576)), ("lora_B", (576, 8))):
            values = array("f", (random.gauss(0, 0.3) for _ in range(shape[0] * shape[1])))
            name = f"base_model.model.model.layers.{layer}.self_attn.q_proj.{part}.weight"
            offsets = [len(content), len(content) + 4 * len(values)]
            header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": offsets}
            content += values.tobytes()
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + content)
    config = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"], "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))


@dataclass(frozen=True)
class Served:
    lmi: Installed
    address: str
    events: list[dict[str, Any]]

    def post(self, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        # urllib would send headers in lower case, under which DJL does not find the adapter.
        place = urlsplit(self.address)
        connection = HTTPConnection(place.hostname or "", place.port, timeout=300)
        try:
            sent = {"Content-Type": "application/json", **(headers or {})}
            connection.request("POST", place.path, json.dumps({"temperature": 0, **body}), sent)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

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
def served(lmi: Installed, tmp_path_factory: pytest.TempPathFactory) -> Served:
    adapter = tmp_path_factory.mktemp("adapter")
    write_noise(adapter)
    settings = ("--set", f"adapters.noise={adapter}", "--set", "options.max_lora_rank=8")
    done = lmi.run("up", "--yes", "--json", RECIPE, *settings)
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


def test_adapter_changes_a_whole_answer_and_a_stream_with_it_is_refused(served: Served) -> None:
    asked = ("invoke", NAME, FRANCE[0]["content"], "-p", "max_tokens=12", "-p", "temperature=0")
    with_adapter = served.lmi.run(*asked, "--adapter", "noise", "--no-stream")
    assert with_adapter.returncode == 0, with_adapter.stderr
    base = served.lmi.run(*asked, "--no-stream").stdout
    assert base.strip() == "The capital of France is Paris."
    assert with_adapter.stdout != base
    refused = served.lmi.run(*asked, "--adapter", "noise", "--stream")
    assert refused.returncode == 2
    assert "ignores the adapter" in refused.stderr


def test_streams_of_this_engine_still_ignore_the_adapter(served: Served) -> None:
    """What the refusal says: once this fails, the refusal is wrong."""
    header = {"X-Amzn-SageMaker-Adapter-Identifier": "noise"}
    body = {"messages": FRANCE, "max_tokens": 12}
    status, text = served.post({**body, "stream": True}, header)
    assert status == 200
    deltas = [json.loads(line)["choices"][0]["delta"] for line in text.splitlines() if line]
    assert "".join(delta.get("content") or "" for delta in deltas) == "The capital of France is Paris."
    _, whole = served.post(body, header)
    assert json.loads(whole)["choices"][0]["message"]["content"] != "The capital of France is Paris."


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


@pytest.mark.parametrize("table", [DRAFT, NGRAM], ids=["draft model", "ngram"])
def test_speculation_is_refused_before_anything_changes(served: Served, table: dict[str, Any]) -> None:
    option = f"options.speculative_config='{json.dumps(table)}'"
    done = served.lmi.run("plan", RECIPE, "--set", option)
    assert done.returncode == 2, done.stdout
    assert "on a CPU, vLLM 0.10.2 has no speculative decoding" in done.stderr
    assert served.answer(messages=FRANCE, max_tokens=2)


REFUSALS = f"""\
import sys
from vllm import LLM
from vllm.engine.arg_utils import EngineArgs

model, settings = sys.argv[1], {{"enforce_eager": True, "dtype": "float32", "max_model_len": 256}}
try:
    EngineArgs(model=model, speculative_config={{**{DRAFT!r}, "model": model}}, **settings).create_engine_config()
except NotImplementedError as refused:
    print(refused)
try:
    LLM(model=model, speculative_config={NGRAM!r}, **settings)
except AssertionError as refused:
    print(refused)
"""


def test_this_vllm_still_refuses_to_speculate(served: Served) -> None:
    """What the refusal says: once this fails, the refusal is wrong."""
    worker = next(
        process.cmdline()
        for process in served.processes()
        if "python" in process.name() and "djl_python_engine" in " ".join(process.cmdline())
    )
    [snapshot] = Path(served.lmi.environment["HF_HOME"]).glob("hub/models--*/snapshots/*")
    quiet = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(
        [worker[0], "-c", REFUSALS, str(snapshot)],
        env={**os.environ, **quiet},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Speculative decoding with draft model is not supported yet." in done.stdout, done.stderr
    assert "spec decode is not supported." in done.stdout, done.stderr


def test_killed_server_leaves_no_process_of_vllm(served: Served) -> None:
    family = served.processes()
    assert any("EngineCor" in process.name() for process in family)
    os.kill(family[0].pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    assert served.lmi.run("down", "--yes", NAME).returncode == 0
