"""A whole lifecycle with secrets in all inputs, every request recorded: no secret leaks, and each S3 request
states the expected bucket owner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run, write_report
from lmi_deploy.emulator.faults.rules import Call
from tests.support.emulator_process import ACCOUNT, REGION, Emulated, emulator
from tests.support.hub import HubModels, HubState, serve_hub
from tests.support.least_privilege import HANDLER, write_model
from tests.support.proxy import Proxy, proxied

pytestmark = pytest.mark.landing

HUB, KEY, SESSION = (f"canary-{place}-9f27c4d1" for place in ("hub", "key", "session"))
RECIPE = """\
name: echo
model_id: org/tiny
engine: custom
instance_type: ml.m5.xlarge
handler: {file: model.py}
probe: {body: '{"inputs": "OK"}'}
"""
JOB = "weights: {via: job, token_secret: hub-token, job: {instance_type: ml.m5.large, role: serving}}\n"
UP, DOWN = ("up", "r.yaml", "--yes", "--json"), ("down", "echo", "--yes", "--json")
BODY = ("--body", '{"inputs": "x"}')
LIFE = (
    (("validate", "r.yaml"), 0),
    (("render", "r.yaml", "-o", "rendered"), 0),
    (("iam", "r.yaml"), 0),
    (("plan", "r.yaml", "--out", "plan.json"), 0),
    (("up", "plan.json", "--yes"), 0),
    (("status", "echo", "--json"), 0),
    (("invoke", "echo", *BODY), 0),
    ((*UP, "--set", "endpoint.count=2"), 0),
    (("rollback", "echo", "--yes"), 0),
    ((*UP, "--set", "weights.deliver=artifact"), 0),
    (("ls", "--all", "--json"), 0),
    ((*UP, "--set", "revision=absent"), 1),
    ((*UP, "--set", "endpoint.role=absent", "--set", "options.dtype=fp32"), 1),
    (("weights", "ls"), 0),
    (("gc", "--yes"), 0),
    ((*DOWN, "--purge"), 0),
    (("up", "job.yaml", "--yes"), 0),
    (DOWN, 0),
)


@dataclass
class Record:
    """What left this machine, request by request, and what was printed here."""

    requests: list[tuple[str, Call, bytes]] = field(default_factory=list)
    output: list[str] = field(default_factory=list)

    def watch(self, proxy: Proxy, name: str) -> None:
        def keep(call: Call, body: bytes) -> bytes:
            self.requests.append((name, call, body))
            return body

        proxy.tamper = keep


@dataclass(frozen=True)
class Scene:
    aws: Emulated
    shelves: Emulated
    """Whose S3 it is: external to the account, so that the requests of jobs are recorded, too."""
    record: Record
    environment: dict[str, str]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A Hub that requires the token, and an account; a recording proxy before each, S3 with its own."""
    root, record = tmp_path_factory.mktemp("scene"), Record()
    (root / "org").mkdir()
    write_model(root / "org" / "tiny")
    state = HubState(HubModels(root), tokens=frozenset({HUB}))
    state.models.scan()
    with ExitStack() as stack:
        hub = stack.enter_context(serve_hub(state=state))
        shelves = stack.enter_context(emulator(tmp_path_factory.mktemp("s3"), "--key", f"any:{KEY}"))
        storage = stack.enter_context(proxied(shelves.url))
        variables = {"HF_ENDPOINT": hub.url, "HF_TOKEN": HUB, **shelves.keys}
        aws = stack.enter_context(
            emulator(
                tmp_path_factory.mktemp("aws"),
                *("--speed", "1000000", "--s3", storage.url),
                containers=True,
                variables=variables,
            )
        )
        front = stack.enter_context(proxied(aws.url))
        hub_front = stack.enter_context(proxied(hub.url))
        for name, proxy in (("s3", storage), ("aws", front), ("hub", hub_front)):
            record.watch(proxy, name)
        aws.role("serving")
        everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        aws.client("iam").put_role_policy(
            RoleName="serving",
            PolicyName="all",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [everything]}),
        )
        aws.client("secretsmanager").create_secret(Name="hub-token", SecretString=HUB)
        yield Scene(
            aws,
            shelves,
            record,
            {
                "AWS_ENDPOINT_URL": front.url,
                "AWS_ENDPOINT_URL_S3": storage.url,
                "AWS_REGION": REGION,
                "AWS_CONFIG_FILE": "/nowhere",
                "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
                **aws.keys,
                "AWS_SESSION_TOKEN": SESSION,
                "HF_ENDPOINT": hub_front.url,
                "HF_TOKEN": HUB,
            },
        )


@pytest.fixture
def lived(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Scene:
    homes = {f"LMI_{kind}_HOME": str(tmp_path / kind) for kind in ("STATE", "CACHE")}
    for name, value in {**scene.environment, **homes, "HF_HOME": str(tmp_path / "hf")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(HANDLER)
    place = "endpoint: {role: serving}\n"
    Path("r.yaml").write_text(RECIPE + place)
    Path("job.yaml").write_text(RECIPE + JOB + place)
    token = tmp_path / "hf" / "token"
    for number, (command, expected) in enumerate(LIFE):
        if number == len(LIFE) // 2:
            monkeypatch.delenv("HF_TOKEN")
            token.parent.mkdir(exist_ok=True)
            token.write_text(HUB)
        code = run(lmi, command)
        out, err = capsys.readouterr()
        scene.record.output.append(out + err)
        assert code == expected, (command, out, err)
    return scene


def test_output_requests_and_files_contain_no_secret_and_requests_name_the_owner(
    lived: Scene, tmp_path: Path
) -> None:
    _assert_not_printed(lived)
    _nothing_sent(lived)
    _assert_not_stored(lived, tmp_path)
    _owner_on_each(lived)


def test_bug_report_contains_no_secret() -> None:
    report = write_report(RuntimeError(HUB), ("up", HUB, "--set", f"x={KEY}", f"--y={SESSION}"))
    assert not secrets_in(report.read_bytes())
    report.unlink()


def _assert_not_printed(scene: Scene) -> None:
    output = "\n".join(scene.record.output)
    events = scene.aws.client("logs").filter_log_events(logGroupName="/aws/sagemaker/ProcessingJobs")
    output += "\n".join(event["message"] for event in events["events"])
    assert "every file verified" in output
    assert not secrets_in(output.encode())


def _nothing_sent(scene: Scene) -> None:
    belongs = {"hub": {"authorization": HUB}, "aws": {"x-amz-security-token": SESSION}}
    belongs["s3"] = belongs["aws"]
    visited = set()
    for name, call, body in scene.record.requests:
        headers = {key.lower(): value for key, value in call.headers.items()}
        for header, secret in belongs[name].items():
            if secret in headers.get(header, ""):
                visited.add(name)
                del headers[header]
        assert not secrets_in(call.path.encode() + str(headers).encode() + body), (name, call)
    assert visited == {"hub", "aws", "s3"}


def _assert_not_stored(scene: Scene, folder: Path) -> None:
    """In local files, in the bucket, in SageMaker's descriptions, in tags."""
    for path in folder.rglob("*"):
        if path.is_file() and path != folder / "hf" / "token":
            assert not secrets_in(path.read_bytes()), path
    s3, sagemaker = scene.shelves.client("s3"), scene.aws.client("sagemaker")
    bodies = [body for _, call, body in scene.record.requests if call.method in ("PUT", "POST")]
    assert any(b"serving" in body for body in bodies)
    for bucket in s3.list_buckets()["Buckets"]:
        for stored in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ()):
            content = s3.get_object(Bucket=bucket["Name"], Key=stored["Key"])["Body"].read()
            assert not secrets_in(content + stored["Key"].encode()), stored["Key"]
    jobs = sagemaker.list_processing_jobs()["ProcessingJobSummaries"]
    assert jobs
    for job in jobs:
        result = sagemaker.describe_processing_job(ProcessingJobName=job["ProcessingJobName"])
        assert not secrets_in(json.dumps(result, default=str).encode())


def _owner_on_each(scene: Scene) -> None:
    """All except the creation of a bucket, which has no owner yet. SageMaker's own reads are not checked."""
    expected = {"x-amz-expected-bucket-owner": ACCOUNT}
    own = [
        (call, {key.lower(): value for key, value in call.headers.items()})
        for name, call, _ in scene.record.requests
        if name == "s3" and not call.headers.get("User-Agent", "").startswith("Botocore/")
    ]
    without = [
        f"{call.method} {call.path}"
        for call, headers in own
        if not expected.items() <= headers.items()
        or ("x-amz-copy-source" in headers and headers.get("x-amz-source-expected-bucket-owner") != ACCOUNT)
    ]
    assert without == [f"PUT /lmi-{ACCOUNT}-{REGION}-an"], without
    assert len(own) > 100
    assert any("x-amz-copy-source" in headers for _, headers in own)
    assert any("lmi-deploy" in headers.get("user-agent", "") for _, headers in own)


def secrets_in(content: bytes) -> list[str]:
    return [secret for secret in (HUB, KEY, SESSION) if secret.encode() in content]
