"""Errors between lmi and AWS, each with its own message: requests are retried where that is safe, no retry
is endless, no secret is shown."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.aws.client import AwsConnection
from lmi_deploy.aws.iam import IamRoles
from lmi_deploy.aws.sagemaker.hosting import SageMakerHosting
from lmi_deploy.errors import AccessError, CloudError, LmiError, NoCapacity
from lmi_deploy.host.clock import SystemClock
from tests.support.certificate import certificate
from tests.support.emulator_process import ACCOUNT, Emulated
from tests.support.sagemaker_fixtures import SECRET, TAGS, Recorder, model_settings


def error_for(code: str, message: str = "no", *, status: int = 400, **headers: str) -> dict[str, Any]:
    body = f'{{"__type": "{code}", "message": "{message}"}}'
    return {"answer": {"status": status, "body": body, "headers": headers}}


def on(operation: str, do: Any, **more: Any) -> dict[str, Any]:
    return {"headers": {"X-Amz-Target": f"{operation}$"}, "do": do, **more}


@pytest.mark.parametrize(
    "do",
    [
        error_for("ThrottlingException", "Rate exceeded"),
        error_for("ServiceUnavailable", status=503),
        error_for("InternalFailure", status=500),
        "drop",
        {"drop": {"reset": True}},
    ],
)
def test_transient_error_is_retried(
    aws: Emulated, hosting: SageMakerHosting, recorder: Recorder, do: Any
) -> None:
    aws.fault(on("DescribeEndpoint", do, times=4))
    assert hosting.endpoint("nobody") is None
    assert len(recorder.notes) == 4
    assert recorder.notes[0].startswith("endpoint nobody: trying again: ")
    assert 4 < recorder.clock.slept < 40


def test_permanent_throttling_ends_with_an_error(
    aws: Emulated, hosting: SageMakerHosting, recorder: Recorder
) -> None:
    aws.fault(on("DescribeEndpoint", error_for("ThrottlingException", "Rate exceeded"), times=None))
    with pytest.raises(
        CloudError, match=r"endpoint nobody: SageMaker at .* still failed after several attempts: Throttling"
    ) as caught:
        hosting.endpoint("nobody")
    assert "run the same command again" in caught.value.hint
    assert recorder.clock.slept < 60


def test_adaptive_retry_mode_retries_inside_botocore(aws: Emulated, recorder: Recorder) -> None:
    patient = SageMakerHosting(recorder.access(attempts=4, manner="adaptive"), account=ACCOUNT)
    aws.fault(on("DescribeEndpoint", error_for("ThrottlingException", "Rate exceeded"), times=1))
    assert patient.endpoint("nobody") is None
    assert recorder.notes == []


def test_expired_credentials_are_refreshed_once(
    aws: Emulated, hosting: SageMakerHosting, recorder: Recorder
) -> None:
    aws.fault(on("DescribeEndpoint", error_for("ExpiredTokenException", "The security token is expired")))
    assert hosting.endpoint("nobody") is None
    assert recorder.sessions == 2
    assert recorder.notes == ["the AWS credentials have expired: refreshing them"]
    aws.no_faults()
    aws.fault(on("DescribeEndpoint", error_for("ExpiredTokenException"), times=None))
    with pytest.raises(AccessError, match="AWS credentials: they have expired") as caught:
        hosting.endpoint("nobody")
    assert "aws sso login" in caught.value.hint
    assert recorder.sessions == 3


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("UnrecognizedClientException", "AWS does not know"),
        ("InvalidSignatureException", "the secret key does not belong"),
        ("OptInRequired", "has not enabled the region"),
    ],
)
def test_rejected_credentials_are_not_retried(
    aws: Emulated, hosting: SageMakerHosting, recorder: Recorder, code: str, why: str
) -> None:
    aws.fault(on("DescribeEndpoint", error_for(code)))
    with pytest.raises(AccessError, match=f"AWS credentials: .*{why}"):
        hosting.endpoint("nobody")
    assert recorder.notes == []


@pytest.fixture
def later(aws: Emulated, recorder: Recorder) -> Iterator[Recorder]:
    """A recorder whose clock is three hours behind AWS."""
    recorder.clock = SystemClock()
    aws.role("late")
    aws.post("/_clock", {"off": 10_800})
    yield recorder
    aws.post("/_clock", {"off": 0})


def test_clock_skew_is_reported_and_corrected(later: Recorder) -> None:
    """JSON services return InvalidSignatureException, IAM returns SignatureDoesNotMatch."""
    assert SageMakerHosting(later.access(), account=ACCOUNT).endpoint("nobody") is None
    assert IamRoles(later.access()).assumable(f"arn:aws:iam::{ACCOUNT}:role/late") == ""
    assert later.notes == [
        "this machine's clock is 180 minutes behind of SageMaker's: lmi signs requests with SageMaker's time",
        "this machine's clock is 180 minutes behind of IAM's: lmi signs requests with IAM's time",
    ]


@pytest.mark.parametrize(
    "code", ["InvalidSignatureException", "SignatureDoesNotMatch", "RequestTimeTooSkewed"]
)
def test_clock_skew_that_persists_is_an_error(
    aws: Emulated, hosting: SageMakerHosting, recorder: Recorder, code: str
) -> None:
    output = "Signature expired: 20260101T000000Z is now earlier than 20260101T025500Z"
    aws.fault(
        on("DescribeEndpoint", error_for(code, output, Date="Thu, 01 Jan 2026 03:00:00 GMT"), times=None)
    )
    with pytest.raises(AccessError, match="clock of this machine is wrong by more than 5 minutes") as caught:
        hosting.endpoint("nobody")
    assert "timedatectl" in caught.value.hint


def test_access_denied_names_action_resource_principal_and_statement(
    aws: Emulated, hosting: SageMakerHosting
) -> None:
    arn = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:endpoint/chat"
    output = (
        f"User: arn:aws:iam::{ACCOUNT}:user/ann is not authorized to perform: sagemaker:DescribeEndpoint on resource: "
        f"{arn} because no identity-based policy allows the sagemaker:DescribeEndpoint action"
    )
    aws.fault(on("DescribeEndpoint", error_for("AccessDeniedException", output)))
    with pytest.raises(AccessError) as caught:
        hosting.endpoint("chat")
    assert caught.value.message == (
        f"endpoint chat: access denied: arn:aws:iam::{ACCOUNT}:user/ann may not sagemaker:DescribeEndpoint on {arn}"
    )
    assert caught.value.hint == (
        'the role or user needs {"Effect": "Allow", "Action": "sagemaker:DescribeEndpoint", '
        f'"Resource": "{arn}"}}'
    )


def test_explicit_deny_is_distinguished(aws: Emulated, hosting: SageMakerHosting) -> None:
    output = (
        "User: arn:aws:iam::1:user/ann is not authorized to perform: sagemaker:CreateModel on resource: arn:aws:x "
        "with an explicit deny in a service control policy"
    )
    aws.fault(on("CreateModel", error_for("AccessDeniedException", output)))
    with pytest.raises(AccessError) as caught:
        hosting.create_model("m", model_settings(aws), TAGS)
    assert caught.value.hint == (
        "no permission overrides an explicit deny: ask the owner of the service control policy to remove it"
    )


def test_access_denied_without_a_message_names_the_call(aws: Emulated, hosting: SageMakerHosting) -> None:
    aws.fault(on("DescribeEndpoint", error_for("AccessDeniedException", "")))
    with pytest.raises(
        AccessError, match=r"these credentials may not sagemaker:DescribeEndpoint on arn:aws:sage"
    ):
        hosting.endpoint("chat")


def test_insufficient_capacity_on_create_is_no_capacity(aws: Emulated, hosting: SageMakerHosting) -> None:
    aws.fault(on("CreateEndpoint", error_for("InsufficientInstanceCapacity", "none left")))
    with pytest.raises(NoCapacity, match="no capacity for this instance type in us-east-1") as caught:
        hosting.create_endpoint("chat", "chat", TAGS)
    assert "instance_type" in caught.value.hint


@pytest.mark.parametrize(
    ("do", "why"),
    [
        (
            {"answer": {"status": 403, "body": "<html>blocked</html>"}},
            "answered 403, which is not a response of SageMaker",
        ),
        ({"answer": {"status": 407, "body": "proxy"}}, "answered 407, which is not a response of SageMaker"),
        ({"answer": {"status": 200, "body": "<html>log in</html>"}}, "answered without EndpointStatus"),
        ({"answer": {"status": 200, "body": "{}"}}, "answered without EndpointStatus"),
    ],
)
def test_response_not_from_aws_is_reported_with_the_address(
    aws: Emulated, recorder: Recorder, do: Any, why: str
) -> None:
    recorder.clock = (
        SystemClock()
    )  # a frozen clock is wrong by months, and a denial without a code could be caused by that
    hosting = SageMakerHosting(recorder.access(), account=ACCOUNT)
    aws.fault(on("DescribeEndpoint", do, times=None))
    with pytest.raises(LmiError, match=why) as caught:
        hosting.endpoint("chat")
    assert aws.url in caught.value.message
    assert "AWS_ENDPOINT_URL" in caught.value.hint


def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://no-such-host.invalid:1")


def _refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")


def _proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("failure", "why", "hint"),
    [
        (_no_server, r"http://no-such-host\.invalid:1: cannot be reached", "AWS_ENDPOINT_URL"),
        (_refused, r"http://127\.0\.0\.1:1: cannot be reached", r"the region \(us-east-1\)"),
        (_proxy, r"https://api\.sagemaker\.us-east-1\.amazonaws\.com: no connection: .*proxy", "HTTPS_PROXY"),
    ],
)
def test_unreachable_address_is_reported_in_one_line(
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    failure: Callable[[pytest.MonkeyPatch], None],
    why: str,
    hint: str,
) -> None:
    failure(monkeypatch)
    with pytest.raises(AccessError, match=why) as caught:
        SageMakerHosting(recorder.access(), account=ACCOUNT).endpoint("chat")
    assert "\n" not in caught.value.message
    assert hint.replace("\\", "") in caught.value.hint
    assert recorder.clock.slept == 0


def test_untrusted_certificate_is_reported_with_a_hint(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(tmp_path))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _SilentServer) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://127.0.0.1:{server.server_address[1]}")
        with pytest.raises(AccessError, match="no connection: SSL validation failed") as caught:
            SageMakerHosting(recorder.access(), account=ACCOUNT).endpoint("chat")
        server.shutdown()
    assert "AWS_CA_BUNDLE" in caught.value.hint
    assert recorder.clock.slept == 0


class _SilentServer(socketserver.BaseRequestHandler):
    """Completes the TLS handshake as far as the client does."""

    def handle(self) -> None:
        with suppress(OSError):
            self.request.do_handshake()


def test_messages_contain_no_secrets(aws: Emulated, hosting: SageMakerHosting, recorder: Recorder) -> None:
    lines: list[str] = []
    for do in (
        error_for("ExpiredTokenException"),
        error_for("AccessDeniedException", "no"),
        error_for("ThrottlingException"),
        error_for("InvalidSignatureException", "The Canonical String was: x"),
        "drop",
        {"answer": {"status": 500, "body": "<x/>"}},
    ):
        aws.fault(on("DescribeEndpoint", do, times=None))
        with pytest.raises(LmiError) as caught:
            hosting.endpoint("nobody")
        lines += [caught.value.message, caught.value.hint, *caught.value.details, *recorder.notes]
        aws.no_faults()
    assert lines
    assert SECRET not in " ".join(lines)
    assert "Signature=" not in " ".join(lines)


def test_repr_of_the_access_contains_no_credentials(recorder: Recorder) -> None:
    access: AwsConnection = recorder.access()
    assert SECRET not in repr(access)
