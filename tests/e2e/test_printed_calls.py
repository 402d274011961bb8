"""Every call that lmi prints works as it is printed: other people's tools run them, against an emulator whose endpoints
return the request, and against a server on this machine."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.adapters import SHAPE, write_adapter
from tests.support.clients import clients, openai_clients
from tests.support.emulator_process import Emulated, emulator
from tests.support.fakes import model_files
from tests.support.least_privilege import clear_buckets
from tests.support.proxy_process import proxy

pytestmark = pytest.mark.landing
PROGRAM_SECONDS = 120
KEY = {"LMI_PROXY_API_KEY": "none"}
Lmi = Callable[..., str]
CHAT = {
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Paris"}}]
}
VECTORS = [[0.5, -0.5]]
ECHO = """
from djl_python import Output

def handle(inputs):
    return None if inputs.is_empty() else Output().add(inputs.get_as_bytes())
"""
CLOUD = "instance_type: ml.g5.xlarge\n"
TEXT = "engine: accelerate\ntask: text-generation\n"
OWN = """engine: custom\nhandler: {file: model/model.py}\nprobe: {body: '{"inputs": "it''s"}'}\n"""
TUNED = "engine: vllm\ntask: text-generation\nadapters: {sql: ./sql}\n"
CANDIDATE = "endpoint: {candidate: {set: {options.dtype: fp32}, traffic_percent: 50}}\n"
KINDS = {
    "real-time": TEXT,
    "own-code": OWN,
    "asynchronous": OWN + "endpoint: {asynchronous: {}}\n",
    "shared": TEXT + "endpoint: {share: team}\n",
    "adapters": TUNED,
    "adapter-components": TUNED + "endpoint: {share: tuned}\n",
    "candidate": TEXT + CANDIDATE,
    "embeddings": "engine: accelerate\ntask: text-embedding\n",
    "vision": "engine: accelerate\ntask: text-generation\nhandler: {template: image-text-to-text}\n",
    "triton": "engine: triton\ntask: text2text-generation\nfiles: {allow: ['*']}\n"
    "options: {execution_environment: environment.tar.gz}\n",
}
CHAT = (
    "Paris",
    {
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Paris"}}
        ]
    },
)
"""A word of the answer, and the response that has it."""
IN_CI = ("real-time", "asynchronous", "adapter-components")
"""One of each form of request; `make test-all` has the others."""
TENSOR = {"name": "generated_text", "datatype": "BYTES", "shape": [1, 1], "data": ["Paris"]}
RESPONSES: dict[str, tuple[str, object]] = {
    "embeddings": ("0.5", [[0.5, -0.5]]),
    "triton": ("Paris", {"outputs": [TENSOR]}),
}


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "1000000") as running:
        running.role("lmi-endpoint")
        yield running


@pytest.fixture
def command(
    aws: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Lmi:
    for name, value in aws.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    clear_buckets(aws)
    for path, content in model_files(**SHAPE).items():
        (tmp_path / "model" / path).parent.mkdir(exist_ok=True)
        (tmp_path / "model" / path).write_bytes(content)
    (tmp_path / "model" / "model.py").write_text(ECHO)
    (tmp_path / "model" / "environment.tar.gz").touch()
    write_adapter(tmp_path / "sql")

    def call(*words: str) -> str:
        code = run(lmi, list(words))
        printed = capsys.readouterr()
        assert code == 0, printed
        return printed.out

    return call


def calls(printed: str) -> dict[str, str]:
    """What can be pasted, by its heading."""
    found = re.findall(
        r"^(\S[^\n]*):\n((?:  [^\n]*\n?)+)", printed[printed.index("Invoke it:") :], re.MULTILINE
    )
    return {heading: textwrap.dedent(lines) for heading, lines in found if not heading.startswith("Watch")}


def output_of(text: str, folder: Path, **more: str) -> str:
    """As a user runs it: with `lmi` and the AWS CLI on PATH, with boto3 or with OpenAI's client library."""
    library = openai_clients() if "import OpenAI" in text else clients()
    path = os.pathsep.join((str(clients()), str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        [library / "python", "-c", text] if "import " in text else ["sh", "-ec", text],
        env={**os.environ, "PATH": path, **more},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_SECONDS,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize(
    "kind", [kind if kind in IN_CI else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS]
)
def test_printed_calls_reach_the_endpoint(aws: Emulated, command: Lmi, tmp_path: Path, kind: str) -> None:
    Path("r.yaml").write_text(f"name: {kind}\nmodel_id: ./model\n{CLOUD}{KINDS[kind]}")
    command("up", "r.yaml", "--yes", "--no-probe")
    printed = calls(command("status", kind, "--calls"))
    if OWN in KINDS[kind]:
        body, direct = """{"inputs": "it's"}""", [*printed.values()]
        assert not [heading for heading in printed if "OpenAI" in heading]
    else:
        body = ast.literal_eval(re.findall(r"body = (.*)", printed["From Python"])[0])
        direct = [printed.get("Without it", ""), printed["From Python"]]
        said, response = RESPONSES.get(kind, CHAT)
        answers(aws, response)
        assert said in output_of(printed["Invoke it"], tmp_path)
        with proxy(tmp_path, kind, environ={**aws.environment(tmp_path), **KEY}) as running:
            for text in (text for heading, text in printed.items() if "OpenAI" in heading):
                assert said in output_of(text.replace(":8000/", f":{running.port}/"), tmp_path, **KEY)
        aws.no_faults()
    for text in direct:
        expected = sum(map(text.count, ("lmi invoke", "aws sagemaker-runtime", "curl ", "print(")))
        assert output_of(text, tmp_path).count(body) == expected, text
    for heading, named in printed.items():
        if heading.startswith("For an adapter"):
            of_adapter = printed["From Python"].replace(f'"{kind}"', f'"{named.partition(": ")[2].strip()}"')
            assert body in output_of(of_adapter, tmp_path)
    if kind == "asynchronous":
        request = {"model": kind, "messages": [{"role": "user", "content": "Hi"}]}
        with proxy(tmp_path, environ={**aws.environment(tmp_path), **KEY}) as running:
            refused = running.post("/v1/chat/completions", request, {"Authorization": "Bearer none"})
        assert refused.status == 400
        assert "--async` sends requests to its queue" in refused.json["error"]["message"]
    command("down", kind, "--yes")


def answers(aws: Emulated, response: object) -> None:
    """Of every endpoint, from now on: what the engine's own server would answer."""
    answer = {"status": 200, "body": json.dumps(response), "headers": {"Content-Type": "application/json"}}
    aws.fault({"method": "POST", "path": "^/endpoints/.*/invocations", "times": 9, "do": {"answer": answer}})


def test_printed_calls_reach_a_server_on_this_machine(command: Lmi, tmp_path: Path) -> None:
    Path("r.yaml").write_text(f"name: here\nmodel_id: ./model\n{OWN}endpoint: {{target: local}}\n")
    command("up", "r.yaml", "--yes", "--no-probe")
    try:
        for text in calls(command("status", "here", "--calls")).values():
            expected = sum(map(text.count, ("lmi invoke", "curl ", "print(")))
            assert output_of(text, tmp_path).count("""{"inputs": "it's"}""") == expected, text
    finally:
        command("down", "here", "--yes")
