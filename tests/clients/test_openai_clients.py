"""OpenAI's client library, LangChain, curl and a load tool against `lmi proxy`: they get a base URL, a key, a model."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.domain.openai_client import PROXY_KEY_VARIABLE
from tests.clients.conftest import HERE, KEY, Deployed, openai_cases, run_client, run_lmi
from tests.support.clients import load_tools, openai_clients
from tests.support.emulator_process import emulator
from tests.support.proxy_process import RunningProxy, proxy
from tests.support.sample_model import cached_tiny_model
from tests.support.serving_environment import serving_python

pytestmark = [pytest.mark.model, pytest.mark.landing]
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
WORDS = ["one", " two"]


def test_openai_gets_whole_and_streamed_responses_of_the_template(url: str, tmp_path: Path) -> None:
    names = ("models", "whole", "stream", "stream_with_usage", "asynchronous", "completion", "responses")
    found = openai_cases(url, "tiny", *names, cwd=tmp_path)
    assert found["models"] == ["acting", "dying", "tiny", "vectors"]
    kind, model, finish, text, tokens = found["whole"]
    assert (kind, model, finish, tokens) == ("chat.completion", "tiny", "length", 8)
    assert text
    assert found["stream"] == text
    assert found["stream_with_usage"] == [[], 8, 1]
    assert found["asynchronous"] == [text, text]
    assert found["completion"][0] == found["completion"][1] != ""
    assert found["responses"] == [text, text]


def test_openai_gets_embeddings(url: str, tmp_path: Path) -> None:
    number, size, alike = openai_cases(url, "vectors", "embeddings", cwd=tmp_path)["embeddings"]
    assert (number, alike) == (2, True)
    assert size > 1


def test_openai_gets_tool_calls_and_structured_output(url: str, tmp_path: Path) -> None:
    found = openai_cases(url, "acting", "tools", "structured", cwd=tmp_path)
    assert found["tools"] == ["tool_calls", "weather", {"city": "Paris"}, {"city": "Paris"}]
    assert found["structured"] == {"city": "Paris", "people": 2100000}


def test_openai_raises_an_error_if_a_stream_breaks(url: str, tmp_path: Path) -> None:
    found = openai_cases(url, "acting", "broken_stream", "stream", cwd=tmp_path)
    words, error, message = found["broken_stream"]
    assert (words, error) == (WORDS, "APIError")
    assert "generation failed: no memory" in message
    assert found["stream"] == "one two three four"
    dying = openai_cases(url, "dying", "dying_stream", cwd=tmp_path)["dying_stream"]
    assert dying[:2] == [WORDS, "APIError"]


def test_openai_raises_its_own_class_for_each_error(url: str, tmp_path: Path) -> None:
    found = openai_cases(url, "tiny", "unknown_model", "unsupported", cwd=tmp_path)
    unknown, refused = found["unknown_model"], found["unsupported"]
    assert (unknown["error"], unknown["status"], unknown["code"]) == ("NotFoundError", 404, "model_not_found")
    assert "tiny" in unknown["message"]
    assert (refused["error"], refused["status"], refused["param"]) == ("BadRequestError", 400, "n")


def test_openai_raises_authentication_and_rate_limit_errors(deployed: Deployed, tmp_path: Path) -> None:
    with proxy(deployed.home, "--concurrency", "1", "--queue", "0", environ=KEY) as strict:
        url = str(strict.ready["url"])
        waiting = _hold(strict)
        try:
            found = openai_cases(url, "acting", "wrong_key", "too_many", cwd=tmp_path)
        finally:
            (deployed.home / "go-on").touch()
            waiting.join(60)
            (deployed.home / "go-on").unlink()
    assert (found["wrong_key"]["error"], found["wrong_key"]["status"]) == ("AuthenticationError", 401)
    assert (found["too_many"]["error"], found["too_many"]["status"]) == ("RateLimitError", 429)


def _hold(strict: RunningProxy) -> threading.Thread:
    """A request that takes the only place until the file is there."""
    body = {"model": "acting", "messages": [{"role": "user", "content": "wait"}]}
    waiting = threading.Thread(target=strict.post, args=("/v1/chat/completions", body), daemon=True)
    waiting.start()
    while not strict.get("/metrics").body.count(b'lmi_proxy_in_flight{model="acting"} 1'):
        assert waiting.is_alive()
    return waiting


def test_langchain(url: str, tmp_path: Path) -> None:
    program = [
        openai_clients() / "python",
        HERE / "with_langchain.py",
        f"{url}/v1",
        "tiny",
        "acting",
        "vectors",
    ]
    found = json.loads(run_client(*program, cwd=tmp_path))
    assert found["whole"]
    assert found["streamed"] == found["whole"]
    assert found["tokens"] == 8
    assert found["batch"] == [found["whole"]] * 3
    assert found["completion"]
    (call,) = found["tools"]
    assert (call["args"], call["type"]) == ({"city": "Paris"}, "tool_call")
    assert found["structured"] == {"city": "Paris", "people": 2100000}
    assert len({*found["vectors"]}) == 1


@needs_curl
def test_curl_gets_a_stream_of_events(through: RunningProxy, url: str) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "stream": True}
    command = ["curl", "-sSN", f"{url}/v1/chat/completions", "-H", "Content-Type: application/json"]
    command += ["-H", f"Authorization: Bearer {through.key}"]
    text = subprocess.run(
        [*command, "-d", json.dumps(body)], capture_output=True, check=True, text=True
    ).stdout
    *events, done, end = text.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    assert all(json.loads(event.removeprefix("data: "))["choices"] for event in events)


@needs_curl
def test_curl_gets_events_from_the_server_itself_if_it_accepts_them(deployed: Deployed) -> None:
    (address,) = re.findall(r"answers at (\S+)", deployed.printed)
    body = json.dumps({"prompt": "Hi", "max_tokens": 4, "stream": True})
    command = ["curl", "-sSN", address, "-H", "Content-Type: application/json", "-d", body]
    accept = ["-H", "Accept: text/event-stream", "-w", "%{content_type}"]
    text = subprocess.run([*command, *accept], capture_output=True, check=True, text=True).stdout
    assert text.startswith('data: {"id": "cmpl-')
    assert text.endswith("data: [DONE]\n\ntext/event-stream")


def test_load_tool_measures_a_deployment(url: str, tmp_path: Path) -> None:
    command: list[str | Path] = [load_tools() / "aiperf", "profile", "--url", url, "--model", "tiny"]
    command += ["--api-key", KEY[PROXY_KEY_VARIABLE]]
    command += ["--endpoint-type", "chat", "--streaming", "--tokenizer", cached_tiny_model(serving_python())]
    command += ["--concurrency", "2", "--request-count", "8", "--output-tokens-mean", "4", "--ui", "none"]
    command += ["--synthetic-input-tokens-mean", "8", "--workers-max", "1", "--record-processors", "1"]
    run_client(*command, "--output-artifact-dir", tmp_path, cwd=tmp_path)
    report = json.loads((tmp_path / "profile_export_aiperf.json").read_text())
    assert (report["request_count"]["avg"], report["error_summary"]) == (8, [])
    assert report["time_to_first_token"]["p50"] > 0
    assert report["output_sequence_length"]["max"] <= 4


def test_lines_that_up_printed_work_as_they_are(
    deployed: Deployed, through: RunningProxy, tmp_path: Path
) -> None:
    lines = deployed.printed.splitlines()
    at = lines.index("  from openai import OpenAI")
    program = "\n".join(line.strip() for line in lines[at - 1 : at + 3])
    assert "http://127.0.0.1:8000/v1" in program
    program = program.replace(":8000/", f":{through.port}/")
    assert run_client(openai_clients() / "python", "-c", program, cwd=tmp_path).strip("\n")


def test_an_endpoint_of_the_emulator_is_asked_with_a_signature(tmp_path: Path) -> None:
    flags = ("--python", str(serving_python()), "--speed", "120")
    with emulator(tmp_path, *flags, containers=True) as aws:
        environ = aws.environment(tmp_path)
        recipe = f"name: far\nmodel_id: {cached_tiny_model(serving_python())}\nengine: accelerate\n"
        (tmp_path / "far.yaml").write_text(f"{recipe}task: text-generation\ninstance_type: ml.g5.xlarge\n")
        run_lmi("up", "--yes", "--no-probe", "far.yaml", environ=environ, cwd=tmp_path)
        with proxy(tmp_path, "far", environ=environ | KEY) as signing:
            names = ("models", "whole", "stream", "unsupported")
            found: dict[str, Any] = openai_cases(str(signing.ready["url"]), "far", *names, cwd=tmp_path)
        run_lmi("down", "far", "--yes", environ=environ, cwd=tmp_path)
    assert found["models"] == ["far"]
    assert found["whole"][:3] == ["chat.completion", "far", "length"]
    assert found["stream"] == found["whole"][3] != ""
    assert found["unsupported"]["error"] == "BadRequestError"
