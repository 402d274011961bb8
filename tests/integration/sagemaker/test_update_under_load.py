"""A changed recipe on an endpoint under load: real handlers in the emulator, and no request lost."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.emulator_process import REGION, Emulated, emulator
from tests.support.fakes import safetensors

pytestmark = pytest.mark.landing

RECIPE = """\
name: echo
model_id: ./model
engine: custom
instance_type: ml.g5.xlarge
task: text-generation
handler: {file: model.py}
probe: {body: '{"inputs": "OK"}', expect: OK}
"""
HANDLER = """\
from djl_python import Output

def handle(inputs):
    if inputs.is_empty():
        return None
    return Output().add_as_json({"generation": GENERATION, "inputs": inputs.get_as_json()["inputs"]})
"""


@pytest.fixture
def containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulated]:
    with emulator(tmp_path, "--speed", "600", containers=True) as aws:
        environment = {
            "AWS_ENDPOINT_URL": aws.url,
            **aws.keys,
            "AWS_REGION": REGION,
            "AWS_CONFIG_FILE": "/nowhere",
            "LMI_STATE_HOME": str(tmp_path / "state"),
        }
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        monkeypatch.chdir(tmp_path)
        aws.role("lmi-endpoint")
        everything = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
        }
        aws.client("iam").put_role_policy(
            RoleName="lmi-endpoint", PolicyName="all", PolicyDocument=json.dumps(everything)
        )
        yield aws


def write(generation: int) -> None:
    Path("model").mkdir(exist_ok=True)
    Path("model/model.safetensors").write_bytes(safetensors())
    Path("echo.yaml").write_text(RECIPE)
    Path("model.py").write_text(HANDLER.replace("GENERATION", str(generation)))


@contextmanager
def continuous_requests(aws: Emulated, responses: Counter[Any], lost: list[str]) -> Iterator[None]:
    """From several concurrent clients, without retries."""
    ended = threading.Event()

    def send() -> None:
        runtime = aws.client("sagemaker-runtime", fresh=True)
        while not ended.is_set():
            try:
                response = runtime.invoke_endpoint(
                    EndpointName="echo", ContentType="application/json", Body=b'{"inputs": "x"}'
                )
                responses[json.load(response["Body"])["generation"]] += 1
            except Exception as exc:  # noqa: BLE001 (whatever it is, a request was lost)
                lost.append(repr(exc))

    clients = [threading.Thread(target=send) for _ in range(3)]
    for client in clients:
        client.start()
    try:
        yield
    finally:
        ended.set()
        for client in clients:
            client.join()


def test_update_and_rollback_under_load_lose_no_request(containers: Emulated) -> None:
    write(1)
    assert run(lmi, ["up", "echo.yaml", "--yes"]) == 0
    write(2)
    responses: Counter[Any] = Counter()
    lost: list[str] = []
    with continuous_requests(containers, responses, lost):
        assert run(lmi, ["up", "echo.yaml", "--yes"]) == 0
        assert run(lmi, ["rollback", "echo", "--yes"]) == 0
    assert lost == []
    assert responses[1] > 0 < responses[2]
    assert run(lmi, ["down", "echo", "--yes", "--purge", "--logs"]) == 0
    assert containers.gone("echo")
