"""The emulator: how much of SageMaker it answers, whether it refuses as AWS does, how long an endpoint takes."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks.measure import say
from benchmarks.result import Figure, Result
from benchmarks.suites import cases
from lmi_deploy.emulator.operation_table import OPERATIONS
from lmi_deploy.emulator.wire.service_models import operation_names, service_model
from tests.emulator.bad_requests import bad_requests, sample
from tests.server.handlers import MANY_WAYS
from tests.support.emulator_process import Emulated, emulator

RUNS = 9
FULL_SPEED: Final = ("--speed", "1000000")
WORDS: Final = "tests/emulator/test_bad_requests.py"
CATALOG: Final = "tests/emulator/test_known_failures.py"
_COUNTED_APART: Final = (
    "tests/emulator/test_bad_requests.py::test_requests_that_violate_the_service_model_are_refused",
    "tests/emulator/test_bad_requests.py::test_table_of_bad_requests_has_the_minimum_length",
)
"""Of the other figures."""


def run() -> Result:
    with tempfile.TemporaryDirectory() as folder, emulator(Path(folder), *FULL_SPEED, containers=True) as aws:
        with _caller(aws) as caller:
            say("  every operation, ...")
            answered = [name for name in sorted(OPERATIONS["sagemaker"]) if caller.is_supported(name)]
            say("  every bad request, ...")
            refused = [
                caller.refuses(bad) for bad in bad_requests("sagemaker", tuple(OPERATIONS["sagemaker"]))
            ]
        say("  endpoints, ...")
        used = [_in_service(aws, f"echo-{number}") for number in range(-1, RUNS)][1:]
    say("  refusals in words that are known from reports, ...")
    right, tried = cases(WORDS, without=_COUNTED_APART)
    known, uploaded = cases(CATALOG)
    return Result(
        what="`lmi emulator --speed 1000000`, asked over HTTP; the handler runs in DJL's Python engine",
        figures=[
            Figure(
                what="Operations of SageMaker that the emulator answers",
                value=len(answered),
                unit="",
                note=f"of {len(operation_names('sagemaker'))} in botocore's model; the others say so",
            ),
            Figure(
                what="Bad requests that the emulator refuses as AWS does, derived from the service model",
                value=sum(refused),
                unit="",
                total=len(refused),
                note="one mistake each; error code and message",
            ),
            Figure(
                what="... and those that only the service itself can refuse",
                value=right,
                unit="",
                total=tried,
                note="roles, images, artifacts, volumes, signatures: messages from public reports",
            ),
            Figure(
                what="Known failures that the emulator reproduces and `lmi` recognizes by their messages",
                value=known,
                unit="",
                total=uploaded,
            ),
            Figure.typical("`CreateEndpoint` to `InService`, an echo handler, the clock at full speed", used),
        ],
        versions={name: version(name) for name in ("lmi-deploy", "boto3", "botocore", "aiohttp", "moto")},
        details={"answered": answered},
    )


def _in_service(aws: Emulated, name: str) -> float:
    files = {"serving.properties": "engine=Python\nminWorkers=1\nmaxWorkers=1\n", "model.py": MANY_WAYS}
    aws.model(name, aws.upload(f"artifacts/{name}", files))
    aws.endpoint_config(name, name)
    started = time.perf_counter()
    aws.endpoint(name)
    found = aws.settled(name)
    duration = time.perf_counter() - started
    if found["EndpointStatus"] != "InService":
        raise SystemExit(f"error: {found}\n{aws.log.read_text()}")
    aws.client("sagemaker").delete_endpoint(EndpointName=name)
    aws.wait_until_deleted(name)
    return duration


class _Caller:
    """Requests as JSON: botocore itself would not send most of the bad ones."""

    def __init__(self, aws: Emulated, connection: http.client.HTTPConnection) -> None:
        self._aws = aws
        self._connection = connection

    def is_supported(self, operation: str) -> bool:
        """Whatever it says to a request that is as its shape wants it, unless that it is not implemented."""
        shape = service_model("sagemaker").operation_model(operation).input_shape
        return self._call(operation, sample(shape, depth=0) if shape is not None else {})[0] != 501

    def refuses(self, bad: Any) -> bool:
        status, response = self._call(bad.operation, bad.params)
        return status == 400 and response["__type"] == bad.code and bad.phrase in response.get("message", "")

    def _call(self, operation: str, params: Any) -> tuple[int, dict[str, Any]]:
        body = json.dumps(params).encode()
        headers = self._aws.signed("sagemaker", body, {"X-Amz-Target": f"SageMaker.{operation}"})
        self._connection.request("POST", "/", body, headers)
        response = self._connection.getresponse()
        fields: dict[str, Any] = json.loads(response.read() or b"{}")
        return response.status, fields


@contextmanager
def _caller(aws: Emulated) -> Iterator[_Caller]:
    with closing(http.client.HTTPConnection(urlsplit(aws.url).netloc, timeout=60)) as connection:
        yield _Caller(aws, connection)
