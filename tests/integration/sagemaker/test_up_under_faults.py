"""Failures between `lmi up` and an endpoint, each with its exit code and message; no resource is lost: once
the fault is over, the same command reaches the desired endpoint, and `down` leaves nothing."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.certificate import certificate
from tests.support.emulator_process import Emulated, emulator
from tests.support.fakes import model_files

pytestmark = pytest.mark.landing

NO_CAPACITY = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
NO_PING = "The primary container for production variant main did not pass the ping health check."
RECIPE = """\
name: tiny
model_id: ./model
engine: accelerate
instance_type: [ml.g5.xlarge, ml.g6.xlarge]
probe: {body: '{"inputs": "OK"}', expect: OK}
"""
CHANGED = "options: {dtype: fp32}\n"
UP, DOWN = ("up", "tiny.yaml", "--yes"), ("down", "tiny", "--yes", "--target", "sagemaker")


@dataclass
class FaultyRun:
    """A user at a terminal: commands and their output."""

    aws: Emulated
    capsys: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch
    root: Path

    def lmi(self, *argv: str) -> tuple[int, str]:
        code = run(lmi, argv)
        out, err = self.capsys.readouterr()
        return code, out + err

    def done(self, *argv: str) -> str:
        code, output = self.lmi(*argv)
        assert code == 0, output
        return output

    def recipe(self, more: str = "") -> None:
        (self.root / "tiny.yaml").write_text(RECIPE + more)

    def remove_faults(self) -> None:
        """Removes all faults."""
        self.aws.no_faults()
        self.aws.post(f"/_quotas/{self.aws.region}", {"ml.g5.xlarge": 4, "ml.g6.xlarge": 4})
        self.patch.delenv("HTTPS_PROXY", raising=False)
        for key, value in self.aws.environment(self.root).items():
            self.patch.setenv(key, value)

    def names(self) -> list[str]:
        return [item["EndpointName"] for item in self.aws.client("sagemaker").list_endpoints()["Endpoints"]]


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "100000") as running:
        yield running


@pytest.fixture
def faulty_run(
    aws: Emulated, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[FaultyRun]:
    for key, value in aws.environment(tmp_path).items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    for name, content in model_files().items():
        (tmp_path / "model" / name).write_bytes(content)
    commands = FaultyRun(aws, capsys, monkeypatch, tmp_path)
    commands.recipe()
    yield commands
    commands.remove_faults()
    commands.lmi(*DOWN)  # left by a failed test


def on(operation: str, code: str, message: str = "no", **more: Any) -> dict[str, Any]:
    headers = more.pop("answer_headers", {})
    response = {"status": 400, "body": f'{{"__type": "{code}", "message": "{message}"}}', "headers": headers}
    return {
        "headers": {"X-Amz-Target": rf"\.{operation}$"},
        "do": {"answer": response},
        "times": None,
        **more,
    }


def hosting(phase: str, do: Any, *, instance: str = "", **more: Any) -> dict[str, Any]:
    path = f"^/{phase}/tiny/.*{instance}"
    return {"method": "HOSTING", "path": path, "do": do, "times": None, **more}


def fails(reason: str) -> dict[str, Any]:
    return {"answer": {"status": 400, "body": reason}}


@dataclass(frozen=True)
class FaultCase:
    """`crash` prepares the fault; then `command` ends with `code` and prints each of `words`."""

    crash: Callable[[FaultyRun], None]
    code: int
    words: tuple[str, ...]
    command: tuple[str, ...] = UP


def rules(*some: dict[str, Any]) -> Callable[[FaultyRun], None]:
    return lambda commands: commands.aws.fault(*some)


def _changed(*some: dict[str, Any]) -> Callable[[FaultyRun], None]:
    """The fault occurs during a change of a serving deployment."""

    def crash(commands: FaultyRun) -> None:
        commands.done(*UP)
        commands.recipe(CHANGED)
        commands.aws.fault(*some)

    return crash


def _wrong_region(commands: FaultyRun) -> None:
    commands.aws.client("s3").create_bucket(Bucket="elsewhere")
    commands.recipe("endpoint: {region: eu-west-1, bucket: elsewhere}\n")


def _no_name(commands: FaultyRun) -> None:
    commands.patch.setenv("AWS_ENDPOINT_URL", "http://no-such-host.invalid:1")


def _proxy(commands: FaultyRun) -> None:
    commands.patch.delenv("AWS_ENDPOINT_URL")
    commands.patch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")


def _intercepted(commands: FaultyRun) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(commands.root))
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Handshake)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    commands.patch.setenv("AWS_ENDPOINT_URL", f"https://127.0.0.1:{server.server_address[1]}")


class _Handshake(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with suppress(OSError):
            self.request.do_handshake()


def _no_quota(commands: FaultyRun) -> None:
    commands.aws.post(f"/_quotas/{commands.aws.region}", {"ml.g5.xlarge": 0, "ml.g6.xlarge": 0})


def _out_of_service(commands: FaultyRun) -> None:
    commands.done(*UP)
    response = {"status": "OutOfService", "reason": "its instances are gone"}
    commands.aws.post(f"/_endpoints/{commands.aws.region}/tiny", response)


def _detached_and_stuck(commands: FaultyRun) -> None:
    commands.aws.fault(hosting("provision", {"hang": {"seconds": 600_000}}))
    commands.done(*UP, "--detach")


SKEWED = {"Date": "Thu, 01 Jan 2026 03:00:00 GMT"}
DENIED = (
    "User: arn:aws:iam::123456789012:user/ann is not authorized to perform: sagemaker:CreateModel on resource: "
    "arn:aws:sagemaker:us-east-1:123456789012:model/tiny because no identity-based policy allows it"
)
MODEL_ERROR = {
    "status": 424,
    "headers": {"x-amzn-errortype": "ModelError", "Content-Type": "application/json"},
    "body": '{"Message": "no", "OriginalStatusCode": 500, "OriginalMessage": "CUDA out of memory"}',
}
FAULTS: dict[str, FaultCase] = {
    "throttled for a while": FaultCase(
        rules(on("DescribeEndpoint", "ThrottlingException", "Rate exceeded", times=2)), 0, ("answers at",)
    ),
    "credentials expire midway": FaultCase(
        rules(on("CreateEndpointConfig", "ExpiredTokenException", "The security token is expired")),
        1,
        ("AWS credentials: they have expired", "aws sso login"),
    ),
    "credentials expire and are renewed": FaultCase(
        rules(on("CreateEndpointConfig", "ExpiredTokenException", "The security token is expired", times=1)),
        0,
        ("the AWS credentials have expired: refreshing them", "answers at"),
    ),
    "this machine's clock is wrong": FaultCase(
        rules(on("DescribeEndpoint", "RequestTimeTooSkewed", "skewed", answer_headers=SKEWED)),
        1,
        ("the clock of this machine is wrong by more than 5 minutes", "timedatectl"),
    ),
    "the bucket is in another region": FaultCase(
        _wrong_region, 1, ("s3://elsewhere: the bucket is in us-east-1", "endpoint.region")
    ),
    "no such host": FaultCase(
        _no_name, 1, ("http://no-such-host.invalid:1: cannot be reached", "AWS_ENDPOINT_URL")
    ),
    "the proxy refuses": FaultCase(_proxy, 1, ("no connection", "proxy", "HTTPS_PROXY")),
    "TLS is intercepted": FaultCase(_intercepted, 1, ("SSL validation failed", "AWS_CA_BUNDLE")),
    "a permission is missing": FaultCase(
        rules(on("CreateModel", "AccessDeniedException", DENIED)),
        1,
        (
            "arn:aws:iam::123456789012:user/ann may not sagemaker:CreateModel on arn:aws:sagemaker",
            '"Effect": "Allow"',
        ),
    ),
    "no capacity, reported immediately": FaultCase(
        rules(on("CreateEndpoint", "InsufficientInstanceCapacity", "none left", times=1)),
        0,
        ("trying the recipe's next instance type", "ml.g6.xlarge", "answers at"),
    ),
    "no capacity, reported after minutes": FaultCase(
        rules(hosting("provision", fails(NO_CAPACITY), instance="ml.g5", delay=600)),
        0,
        ("InsufficientInstanceCapacity", "trying the recipe's next instance type", "answers at"),
    ),
    "no capacity anywhere": FaultCase(
        rules(hosting("provision", fails(NO_CAPACITY))), 1, ("InsufficientInstanceCapacity", "costs nothing")
    ),
    "no quota": FaultCase(_no_quota, 1, ("quota", "ml.g5.xlarge for endpoint usage")),
    "stuck in Creating": FaultCase(
        _detached_and_stuck,
        1,
        ("tiny is still Creating after ", "still costs $1.41 an hour", "`lmi down tiny --region us-east-1`"),
        ("wait", "tiny", "--timeout", "1"),
    ),
    "the container fails, and has no log": FaultCase(
        rules(hosting("start", fails(NO_PING)), hosting("logs", "drop")),
        1,
        ("did not pass the ping health check", "no output of its containers in CloudWatch"),
    ),
    "the container is slow": FaultCase(
        rules(hosting("start", {"hang": {"seconds": 300}}, times=1)), 0, ("answers at",)
    ),
    "the update rolls back": FaultCase(
        _changed(hosting("start", fails(NO_PING))),
        1,
        ("was rolled back; tiny-", "serves", NO_PING, "the previous version of tiny still serves"),
    ),
    "the rollback fails, too": FaultCase(
        _changed(
            hosting("start", fails(NO_PING)), hosting("rollback", fails("no instance for the way back"))
        ),
        1,
        ("the endpoint is UpdateRollbackFailed",),
    ),
    "out of service": FaultCase(
        _out_of_service,
        1,
        ("the endpoint is out of service and does not answer", "lmi up"),
        ("status", "tiny"),
    ),
    "the reply to CreateEndpoint is lost": FaultCase(
        rules({"headers": {"X-Amz-Target": r"\.CreateEndpoint$"}, "do": "lose"}), 0, ("answers at",)
    ),
    "S3 is slow to take the record": FaultCase(
        rules({"method": "PUT", "path": r"record\.json", "times": 2, "do": {"answer": {"status": 503}}}),
        0,
        ("answers at",),
    ),
    "writing to S3 is denied": FaultCase(
        rules({"method": "PUT", "path": r"record\.json", "times": None, "do": {"answer": {"status": 403}}}),
        1,
        ("record.json", "access denied"),
    ),
    "the answer is empty": FaultCase(
        rules({"path": "/endpoints/tiny/invocations", "times": None, "do": {"answer": MODEL_ERROR}}),
        1,
        ("the probe failed", "CUDA out of memory", "still costs"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_failure_is_explained_and_the_next_run_recovers(faulty_run: FaultyRun, name: str) -> None:
    error = FAULTS[name]
    error.crash(faulty_run)
    code, output = faulty_run.lmi(*error.command)
    assert [word for word in error.words if word not in output] == [], output
    assert code == error.code, output
    assert code == 0 or error.command[0] == "status" or "next: " in output
    faulty_run.remove_faults()
    if "region" in (faulty_run.root / "tiny.yaml").read_text():
        faulty_run.recipe()
    faulty_run.done(*UP)
    assert faulty_run.names() == ["tiny"]
    faulty_run.done("plan", "tiny.yaml", "--exit-code")
    faulty_run.done(*DOWN)
    sagemaker = faulty_run.aws.client("sagemaker")
    assert faulty_run.names() == []
    assert sagemaker.list_endpoint_configs()["EndpointConfigs"] == sagemaker.list_models()["Models"] == []
