"""The emulator as a program: its output, how it ends, what it leaves."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.emulator.conftest import FULL_SPEED
from tests.server.handlers import MANY_WAYS
from tests.support.emulator_process import IMAGE, TIMEOUT, Emulated, emulator
from tests.support.json_output import require_described
from tests.support.program_forks import run_emulator

LMI = str(Path(sys.executable).with_name("lmi"))
FILES = {"model.py": MANY_WAYS, "serving.properties": "engine=Python\nminWorkers=1\nmaxWorkers=1\n"}


def start(*arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "lmi_deploy.emulator", "--port", "0", "--no-containers", *arguments]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, out, err


def test_program_prints_exports_and_ends_after_stop_after() -> None:
    code, out, err = ended(start("--stop-after", "0.5", "--s3", "http://127.0.0.1:9"))
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("export AWS_ENDPOINT_URL=http://127.0.0.1:")
    assert "export AWS_ENDPOINT_URL_S3=http://127.0.0.1:9" in out.splitlines()


def test_program_ends_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = start("--parent-pid", str(parent.pid))
    parent.communicate(b"\n", timeout=30)
    assert ended(process)[0] == 0


def test_lmi_emulator_accepts_every_flag_of_the_program() -> None:
    def flags(*argv: str) -> set[str]:
        done = subprocess.run([*argv, "--help"], capture_output=True, text=True, check=True)
        return set(re.findall(r"--[a-z0-9-]+", done.stdout))

    assert flags(sys.executable, "-m", "lmi_deploy.emulator") <= flags(LMI, "emulator")


def test_emulator_ends_when_lmi_is_killed() -> None:
    argv = [LMI, "emulator", "--port", "0", "--no-containers"]
    lmi = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert lmi.stdout is not None
    lmi.stdout.readline()
    (program,) = psutil.Process(lmi.pid).children()
    lmi.kill()
    lmi.wait(30)
    lmi.stdout.close()
    program.wait(30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_program_ends_cleanly_on_a_signal(number: signal.Signals) -> None:
    process = start()
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    assert ended(process)[0] == 0


def test_port_in_use_is_an_error(aws: Emulated, tmp_path: Path) -> None:
    port = aws.url.rpartition(":")[2]
    code, _, err = run_emulator(tmp_path, "--port", port)
    assert code == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in err
    assert "\n  next: choose another port with --port" in err
    assert "--port" in err


UNSOUND = [
    (["--port", "99999"], "--port 99999: not a number from 0 to 65535"),
    (["--speed", "-3"], "--speed -3.0: the speed must be more than 0"),
    (
        ["--s3", "localhost:9000"],
        "--s3 localhost:9000: not an address that begins with http:// or https://",
    ),
    (["--python", "/nowhere/python"], "--python /nowhere/python: not an executable file"),
    (["--engine-dir", "/nowhere"], "--engine-dir /nowhere: has no djl_python_engine.py"),
    (["--dir", __file__], f"--dir {__file__}: cannot be used: File exists"),
    (["--faults", "/nowhere.json"], "/nowhere.json: cannot be read"),
]


@pytest.mark.parametrize(("flags", "message"), UNSOUND, ids=[flags[0] for flags, _ in UNSOUND])
def test_invalid_option_is_refused_before_anything_starts(
    tmp_path: Path, flags: list[str], message: str
) -> None:
    code, out, err = run_emulator(tmp_path, *flags, "--stop-after", "0")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert len(err.splitlines()) == 2, "what is wrong, and what to do"


def test_state_folder_is_used_by_one_emulator_at_a_time(tmp_path: Path) -> None:
    with emulator(tmp_path, "--dir", str(tmp_path / "state")):
        code, _, err = run_emulator(tmp_path, "--dir", str(tmp_path / "state"))
        assert code == 5
        assert err.startswith(f"error: --dir {tmp_path / 'state'}: another emulator is using this folder")
    assert run_emulator(tmp_path, "--dir", str(tmp_path / "state"), "--stop-after", "0")[0] == 0


def test_json_output_is_json_lines_only() -> None:
    argv = [LMI, "emulator", "--json", "--no-containers", "--port"]
    fine, wrong = (
        subprocess.run([*argv, *more], capture_output=True, text=True, check=False, timeout=30)
        for more in (["0", "--stop-after", "0"], ["99999"])
    )
    require_described(argv[1:], fine.stdout + wrong.stdout)
    listening, result = map(json.loads, fine.stdout.splitlines())
    assert listening["event"] == "listening"
    assert listening["environment"]["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
    assert result == {"event": "result", "ok": True, "exit_code": 0}
    assert (fine.returncode, fine.stderr) == (0, "")
    refused = json.loads(wrong.stdout)
    assert (refused["event"], refused["ok"], refused["error"]["kind"]) == ("result", False, "UsageRefused")
    assert refused["error"]["exit_code"] == wrong.returncode == 2
    assert wrong.stderr == ""


def servers_of(folder: Path) -> list[int]:
    """The processes that serve a model folder below this one."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in part for part in process.info["cmdline"] or ()) and process.pid != os.getpid():
            found.append(process.pid)
    return found


def deploy(aws: Emulated) -> None:
    aws.model("one", aws.upload("artifacts/one", FILES))
    aws.endpoint_config("one", "one")
    aws.endpoint("one")
    assert aws.settled("one")["EndpointStatus"] == "InService"


def test_containers_end_with_the_emulator(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with emulator(tmp_path, *FULL_SPEED, "--dir", str(state), containers=True) as aws:
        deploy(aws)
        assert servers_of(state / "hosting")
    assert servers_of(state / "hosting") == []


DETACHES = (
    "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True); "
    "print('started', flush=True); subprocess.run(['sleep', '1000'])"
)


def run_job(aws: Emulated) -> None:
    """Starts a job that has detached a process of its own."""
    cluster = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30}
    aws.client("sagemaker").create_processing_job(
        ProcessingJobName="one",
        RoleArn=aws.role(),
        AppSpecification={"ImageUri": IMAGE, "ContainerEntrypoint": ["python3", "-c", DETACHES]},
        ProcessingResources={"ClusterConfig": cluster},
    )
    deadline = time.monotonic() + TIMEOUT
    while "/aws/sagemaker/ProcessingJobs" not in str(aws.client("logs").describe_log_groups()):
        assert time.monotonic() < deadline, aws.log.read_text()
        time.sleep(0.02)


def assert_ended(processes: list[psutil.Process], *folders: Path) -> bool:
    """Waits until all of them have ended; False if some have not."""
    psutil.wait_procs(processes, timeout=TIMEOUT)
    deadline = time.monotonic() + TIMEOUT
    while any(folder.exists() for folder in folders) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(is_running, processes)) and not any(folder.exists() for folder in folders)


def is_running(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short path, as a unix socket needs it."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize("is_kept", [False, True])
def test_killed_emulator_leaves_no_process_running(tmp_path: Path, short: Path, *, is_kept: bool) -> None:
    kept = ("--dir", str(tmp_path / "state")) if is_kept else ()
    variables = {"TMPDIR": str(short)}
    with emulator(tmp_path, *FULL_SPEED, *kept, containers=True, variables=variables) as aws:
        deploy(aws)
        run_job(aws)
        family = psutil.Process(aws.process.pid).children(recursive=True)
        commands = [" ".join(process.cmdline()) for process in family]
        assert sum(command == "sleep 1000" for command in commands) == 2
        assert any("djl_python_engine" in command for command in commands)
        aws.process.kill()
        aws.process.wait()
        assert assert_ended(family, *short.glob("lmi-emulator-*"))


def test_emulator_ends_detached_processes_of_its_jobs(tmp_path: Path) -> None:
    with emulator(tmp_path, *FULL_SPEED, containers=True) as aws:
        run_job(aws)
        family = psutil.Process(aws.process.pid).children(recursive=True)
    assert assert_ended(family)


def test_next_emulator_ends_containers_of_a_killed_one(tmp_path: Path) -> None:
    state = tmp_path / "state"
    kept = (*FULL_SPEED, "--dir", str(state))
    with emulator(tmp_path, *kept, containers=True) as aws:
        deploy(aws)
        before = set(servers_of(state / "hosting"))
        aws.process.kill()
        aws.process.wait()
    with emulator(tmp_path, *kept, containers=True) as aws:
        # A call that comes before the container is up again waits for it.
        response = aws.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="one", ContentType="application/json", Body=b'{"do": "echo", "text": "again"}'
        )
        assert response["Body"].read() == b"again"
        assert before.isdisjoint(servers_of(state / "hosting"))
    assert servers_of(state / "hosting") == []


def test_proxy_listens_on_the_given_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
    process = start("--port", str(port), "--proxy", "--stop-after", "0.5")
    code, out, err = ended(process)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"export AWS_ENDPOINT_URL=http://127.0.0.1:{port}"
    with socket.create_server(("127.0.0.1", 0)) as used:
        code, _, err = run_emulator(tmp_path, "--port", str(used.getsockname()[1]), "--proxy")
    assert (code, "cannot be used" in err) == (2, True)


NEVER = [
    ({"method": "BYTES", "path": "/up/aws"}, "works only with --proxy"),
    ({"method": "GTE"}, "method GTE: did you mean GET?"),
    (
        {"headers": {"X-Amz-Target": "CreateEndpont$"}},
        "no operation has this name, did you mean CreateEndpoint?",
    ),
    ({"method": "HOSTING", "path": "^/provison/chat"}, "the phases of HOSTING are provision, download"),
    (
        {"method": "HOSTING", "headers": {"X-Amz-Target": "Create"}},
        "steps of the service (HOSTING) have no headers",
    ),
    ({"method": "PUT", "path": "^s3://bucket"}, "paths begin with /"),
]


@pytest.mark.parametrize(("rule", "why"), NEVER)
def test_rule_that_can_never_match_is_refused(
    aws: Emulated, tmp_path: Path, rule: dict[str, object], why: str
) -> None:
    """At the start, and over HTTP."""
    (tmp_path / "rules.json").write_text(json.dumps([{"do": "lose"}, {"name": "mine", "do": "drop", **rule}]))
    code, _, err = run_emulator(tmp_path, "--faults", str(tmp_path / "rules.json"))
    assert (code, "rule 2 (mine) can never match: " in err, why in err) == (2, True, True), err
    with pytest.raises(urllib.error.HTTPError) as refused:
        aws.fault({"do": "drop", **rule})
    assert why in json.load(refused.value)["error"]


def test_container_that_never_answers_ping_leaves_no_worker(hosting: Emulated) -> None:
    """The handler hangs while it loads; its worker leads a session of its own."""
    files = {**FILES, "model.py": "import time\ntime.sleep(600)\n"}
    hosting.model("hangs", hosting.upload("artifacts/hangs", files))
    hosting.endpoint_config("hangs", "hangs", ContainerStartupHealthCheckTimeoutInSeconds=60)
    hosting.endpoint("hangs")
    deadline = time.monotonic() + TIMEOUT
    while not (family := workers_of(hosting)):
        assert time.monotonic() < deadline, hosting.log.read_text()
        time.sleep(0.1)
    hosting.advance(600)
    assert hosting.settled("hangs")["EndpointStatus"] == "Failed"
    assert assert_ended(family)


def workers_of(aws: Emulated) -> list[psutil.Process]:
    family = psutil.Process(aws.process.pid).children(recursive=True)
    return [process for process in family if "djl_python_engine" in " ".join(process.cmdline())]
