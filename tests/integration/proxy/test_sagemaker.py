"""The proxy before an endpoint on the emulator: signatures, event streams, SageMaker's errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.emulator_process import Emulated, emulator
from tests.support.proxy_process import ProxyResponse, RunningProxy, proxy
from tests.support.talking_handler import RECIPE, write_talking

pytestmark = [pytest.mark.worker, pytest.mark.landing]
INVOCATIONS = "/endpoints/talks/invocations$"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "600", containers=True) as running:
        yield running


@pytest.fixture(scope="module")
def environment(aws: Emulated, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Of a user who has deployed the handler."""
    home = tmp_path_factory.mktemp("home")
    write_talking(home)
    (home / "talks.yaml").write_text(RECIPE + 'options: {retry_threshold: "50"}\n')
    environ = aws.environment(home)
    with pytest.MonkeyPatch.context() as patch:
        for key, value in environ.items():
            patch.setenv(key, value)
        patch.chdir(home)
        assert run(lmi, ["up", "talks.yaml", "--yes"]) == 0
    return environ


@pytest.fixture(scope="module")
def talks(environment: Mapping[str, str]) -> Iterator[RunningProxy]:
    with proxy(Path(environment["LMI_STATE_HOME"]).parent, "talks", environ=environment) as running:
        yield running


@pytest.fixture(autouse=True)
def without_faults(aws: Emulated) -> Iterator[None]:
    yield
    aws.no_faults()


def answer(code: str, status: int, message: str = "m", **headers: str) -> dict[str, Any]:
    body = json.dumps({"message": message})
    return {"answer": {"status": status, "body": body, "headers": {"x-amzn-ErrorType": code, **headers}}}


def error(response: ProxyResponse) -> tuple[int, str, str]:
    found = response.json["error"]
    return response.status, found["code"], found["message"]


def test_chat_is_signed_and_answered(talks: RunningProxy) -> None:
    assert talks.ready["models"] == ["talks"]
    response = talks.chat("words 2")
    assert (response.status, response.json["model"]) == (200, "talks")
    assert response.json["choices"][0]["message"]["content"] == " w0 w1"


def test_stream_is_read_from_events(talks: RunningProxy) -> None:
    response = talks.chat("words 20", stream=True, stream_options={"include_usage": True})
    assert response.text == "".join(f" w{number}" for number in range(20))
    assert response.events[-2]["usage"]["completion_tokens"] == 20
    assert response.events[-1] == "[DONE]"


def test_adapter_passes_sagemaker(talks: RunningProxy) -> None:
    said = json.loads(talks.chat("echo", model="talks:french").json["choices"][0]["message"]["content"])
    assert said["adapter"] == "french"


@pytest.mark.parametrize("stream", [False, True])
def test_error_of_the_model_keeps_its_status(talks: RunningProxy, stream: bool) -> None:
    status, _, message = error(talks.chat("refuse", stream=stream))
    assert (status, message) == (400, "temperature: expected a number")


def test_stream_that_the_model_breaks_ends_with_an_error(aws: Emulated, talks: RunningProxy) -> None:
    aws.fault({"method": "HOSTING", "path": "^/stream/talks/", "do": {"cut": {"after": 200}}})
    *before, last = talks.chat("words 50 slow 0.02", stream=True).events
    assert before
    assert "StreamBroken" in last["error"]["message"]
    assert last["error"]["code"] == "stream_broken"


def test_throttling_is_passed_on_with_a_time_to_wait(aws: Emulated, talks: RunningProxy) -> None:
    aws.fault({"path": INVOCATIONS, "do": answer("ThrottlingException", 400, "Rate exceeded")})
    response = talks.chat("words 1")
    assert error(response) == (429, "rate_limit_exceeded", "Rate exceeded")
    assert response.headers["retry-after"] == "1"


def test_unavailable_service_is_passed_on_with_its_time_to_wait(aws: Emulated, talks: RunningProxy) -> None:
    aws.fault({"path": INVOCATIONS, "do": answer("ServiceUnavailable", 503, **{"Retry-After": "7"})})
    response = talks.chat("words 1")
    assert (response.status, response.headers["retry-after"]) == (503, "7")


def test_model_that_is_not_ready_is_asked_again(aws: Emulated, talks: RunningProxy) -> None:
    aws.fault({"path": INVOCATIONS, "do": answer("ModelNotReadyException", 429), "times": 2})
    assert talks.chat("words 1").status == 200


def test_expired_credentials_are_read_again_once(aws: Emulated, talks: RunningProxy) -> None:
    expired = answer("ExpiredTokenException", 403, "The security token included in the request is expired")
    aws.fault({"path": INVOCATIONS, "do": expired, "times": 1})
    assert talks.chat("words 1").status == 200
    aws.fault({"path": INVOCATIONS, "do": expired, "times": 2})
    status, code, message = error(talks.chat("words 1"))
    assert (status, code) == (503, "aws_credentials")
    assert "aws sso login" in message


def test_refused_signature_is_not_the_clients_key(environment: Mapping[str, str]) -> None:
    wrong = {**environment, "AWS_SECRET_ACCESS_KEY": "wrong"}
    with proxy(Path(environment["LMI_STATE_HOME"]).parent, environ=wrong) as running:
        status, code, message = error(running.chat("words 1"))
    assert (status, code) == (503, "aws_credentials")
    assert "wrong" not in message


def test_unreachable_service_is_explained(environment: Mapping[str, str]) -> None:
    closed = {**environment, "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": "http://127.0.0.1:9"}
    with proxy(Path(environment["LMI_STATE_HOME"]).parent, environ=closed) as running:
        status, code, message = error(running.chat("words 1"))
    assert (status, code) == (503, "endpoint_unreachable")
    assert "ignores HTTPS_PROXY" in message


def test_request_over_six_megabytes_is_not_sent(talks: RunningProxy) -> None:
    status, code, message = error(talks.chat("x" * 6_291_456))
    assert (status, code) == (413, "request_too_large")
    assert "accepts at most 6,291,456" in message


def test_response_after_sixty_seconds_is_a_timeout(aws: Emulated, talks: RunningProxy) -> None:
    turn = threading.Timer(0.6, aws.advance, (61,))
    turn.start()
    status, code, message = error(talks.chat("words 1 slow 5"))
    turn.join()
    assert (status, code) == (504, "model_timeout")
    assert "timed out" in message


def test_endpoint_that_is_deleted_is_not_found(aws: Emulated, talks: RunningProxy) -> None:
    """The last test: the endpoint does not come back."""
    aws.client("sagemaker").delete_endpoint(EndpointName="talks")
    aws.wait_until_deleted("talks")
    status, code, message = error(talks.chat("words 1"))
    assert (status, code) == (404, "endpoint_not_found")
    assert "lmi status" in message or "not found" in message
