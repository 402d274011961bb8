"""The lifecycle of a deployment on one machine, in real processes: after a kill at any point, `up` and
`down` converge."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from lmi_deploy.runtimes.server_dirs import chosen_port, run_folder
from tests.support.running_server import TIMEOUT

pytestmark = [pytest.mark.worker, pytest.mark.landing]

ROOT = Path(__file__).resolve().parents[3]
RECIPE = """\
name: tiny
model_id: ./model
engine: custom
task: text-generation
handler: {file: model.py}
probe: {body: hello, content_type: text/plain, expect: hello}
endpoint: {target: local, port: PORT}
"""
HANDLER = """\
import os
import time
from djl_python import Output

def handle(inputs):
    if inputs.is_empty():
        time.sleep(LOADS)
        while os.path.exists("HOLD"):
            time.sleep(0.05)
        return None
    return Output().add("ANSWER to " + inputs.get_as_string())
"""
FIRST_UP = ("InstallEngine", "BuildEnvironment", "PutArtifact", "StartServer", "AwaitReady", "ProbeServer")
CHANGE = (*FIRST_UP[2:], "TakeAddress", "StopServer", "RemoveArtifact")
DOWN = ("StopServer", "RemoveArtifact", "RemoveDeployment")
MOMENTS = ("before", "after")
PLAIN = {"Content-Type": "text/plain"}


@dataclass
class Home:
    """A folder with a recipe, a handler and the state; every command is a process."""

    root: Path
    port: int
    runs: set[Path] = field(default_factory=set)
    """The private folder of every server seen so far."""

    def handler(self, text: str, *, loads: float = 0) -> None:
        handler = HANDLER.replace("ANSWER", text).replace("LOADS", str(loads))
        (self.root / "model.py").write_text(handler.replace("HOLD", str(self.hold)))

    @property
    def hold(self) -> Path:
        """While this file exists, no model finishes loading."""
        return self.root / "hold"

    def begin(self, *argv: str, kill: str = "") -> subprocess.Popen[str]:
        environ = {**os.environ, "LMI_STATE_HOME": str(self.root / "state"), "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.lifecycle_program", *argv],
            cwd=self.root,
            env={**environ, "LMI_TEST_KILL": kill},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def lmi(self, *argv: str, kill: str = "") -> tuple[int, str]:
        """Exit code, and stdout with stderr."""
        with self.begin(*argv, kill=kill) as process:
            output, _ = process.communicate(timeout=TIMEOUT)
        self.runs |= {run_folder(home) for home in (self.deployment / "servers").glob("*")}
        return process.returncode, output

    def done(self, *argv: str) -> str:
        code, output = self.lmi(*argv)
        assert code == 0, output
        return output

    def killed(self, *argv: str, at: int, when: str, action: str) -> None:
        """The command is killed before or after its `at`-th action, and the journal has that action open."""
        code, output = self.lmi(*argv, "--yes", kill=f"{at}:{when}")
        assert code == -9, output
        if (self.deployment / "record.json").exists():
            open_ones = [intent["action"] for intent in self.record["intents"] if intent["outcome"] is None]
            assert open_ones[-1:] == [action], output

    @property
    def deployment(self) -> Path:
        return self.root / "state" / "deployments" / "tiny"

    @property
    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.deployment / "record.json").read_text())
        return record

    def status(self) -> tuple[int, dict[str, Any]]:
        code, output = self.lmi("status", "tiny", "--json")
        response: dict[str, Any] = json.loads(output.splitlines()[-1])
        return code, response

    def invoke(self) -> str:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/invocations", b"me", PLAIN)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            body: bytes = response.read()
        return body.decode()

    def processes(self, word: str = "") -> list[psutil.Process]:
        """The processes that run for this folder."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                line = " ".join(process.cmdline())
                if str(self.root) in line and word in line:
                    found.append(process)
        return found

    def up_serves(self, text: str) -> None:
        """`up` starts exactly one server, with the recipe's response, at the recipe's port, and records it."""
        self.done("up", "--yes")
        assert self.invoke() == f"{text} to me"
        assert len(self.processes("lmi_deploy.server")) == 1
        assert len(list((self.deployment / "servers").iterdir())) == 1
        assert len(list((self.deployment / "artifacts").iterdir())) == 1

    def down_leaves_nothing(self) -> None:
        self.done("down", "tiny", "--yes")
        assert self.processes() == []
        assert [
            path for path in self.root.rglob("state/**/*") if "tiny" in str(path.relative_to(self.root))
        ] == []
        assert [run for run in self.runs if run.exists()] == []
        assert chosen_port("127.0.0.1", self.port) == self.port

    def kill(self, word: str) -> None:
        """Sends SIGKILL to the one process with that word in its command line, and waits until it is gone."""
        (process,) = self.processes(word)
        process.kill()
        with suppress(psutil.TimeoutExpired):  # a zombie, where its parent does not reap it
            process.wait(5)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    (tmp_path / "tiny.yaml").write_text(RECIPE.replace("PORT", str(port)))
    home = Home(tmp_path, port)
    home.handler("first")
    yield home
    if home.deployment.exists():
        home.lmi("down", "tiny", "--yes")
    for process in home.processes():  # left by a failed test
        process.kill()


def killed_at(actions: Sequence[str], landing: str) -> list[Any]:
    """The place of each action; a landing has one, `make test-all` all."""
    return [
        pytest.param(place, id=action, marks=() if action == landing else pytest.mark.long)
        for place, action in enumerate(actions)
    ]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("at", killed_at(FIRST_UP, "StartServer"))
def test_first_up_that_is_killed_is_completed_by_up_or_removed_by_down(home: Home, at: int) -> None:
    home.killed("up", at=at, when="before", action=FIRST_UP[at])
    home.up_serves("first")
    home.killed("down", "tiny", at=at % len(DOWN), when=MOMENTS[at // len(DOWN)], action=DOWN[at % len(DOWN)])
    if home.deployment.exists():
        home.down_leaves_nothing()
    assert home.processes() == []
    shutil.rmtree(home.root / "made")
    home.killed("up", at=at, when="after", action=FIRST_UP[at])
    home.down_leaves_nothing()


@pytest.mark.parametrize("at", killed_at(CHANGE, "TakeAddress"))
def test_change_that_is_killed_is_completed_by_up_or_removed_by_down(home: Home, at: int) -> None:
    home.up_serves("first")
    home.handler("second")
    home.killed("up", at=at, when="before", action=CHANGE[at])
    assert home.invoke().endswith(" to me")  # one generation or the other answers all the time
    home.up_serves("second")
    home.handler("third")
    home.killed("up", at=at, when="after", action=CHANGE[at])
    assert home.invoke().endswith(" to me")
    home.down_leaves_nothing()


@pytest.mark.parametrize("word", ["lmi_deploy.server", "djl_python_engine.py"], ids=["server", "worker"])
def test_killed_server_or_worker_is_reported_and_restarted_by_up(home: Home, word: str) -> None:
    home.done("up", "--yes")
    home.kill(word)
    expected = {"lmi_deploy.server": (4, "drifted"), "djl_python_engine.py": (1, "failed")}[word]
    until(lambda: home.status()[0] != 0)
    code, response = home.status()
    assert (code, response["standing"]) == expected
    assert "lmi up" in response["why"]
    home.up_serves("first")
    home.down_leaves_nothing()


def test_killed_server_is_cleaned_up_by_down(home: Home) -> None:
    home.done("up", "--yes")
    home.kill("lmi_deploy.server")
    home.down_leaves_nothing()


def test_suspended_server_is_reported_and_killed_by_down(home: Home) -> None:
    home.done("up", "--yes")
    (server,) = home.processes("lmi_deploy.server")
    server.suspend()
    output = home.done("down", "tiny", "--yes")
    assert f"(pid {server.pid}) does not respond: lmi sends SIGTERM, and SIGKILL after 3 s" in output
    assert home.processes() == []
    assert chosen_port("127.0.0.1", home.port) == home.port


def test_second_of_two_concurrent_ups_is_refused(home: Home) -> None:
    home.handler("slow")
    home.hold.touch()
    with home.begin("up", "--yes") as first:
        until(lambda: (home.deployment / "record.json").exists())
        code, output = home.lmi("up", "--yes")
        home.hold.unlink()
        first.communicate(timeout=TIMEOUT)
    assert code == 5, output
    assert f"(pid {first.pid} on " in output
    assert first.returncode == 0
    home.up_serves("slow")


def test_wait_completes_and_probes_an_interrupted_or_detached_up(home: Home) -> None:
    home.handler("slow", loads=2)
    home.killed("up", at=FIRST_UP.index("AwaitReady"), when="before", action="AwaitReady")
    assert home.status()[1]["standing"] == "starting"
    assert "answered: slow to hello" in home.done("wait", "tiny")
    assert home.status()[0] == 0
    assert home.invoke() == "slow to me"
    home.handler("second", loads=1)
    assert "`lmi wait tiny`" in home.done("up", "--yes", "--detach")
    assert home.invoke() == "slow to me", "it serves as before until the next one has answered"
    home.done("wait", "tiny")
    assert home.invoke() == "second to me"
    assert len(home.processes("lmi_deploy.server")) == 1
    home.down_leaves_nothing()


def test_port_used_by_another_process_is_reported_and_nothing_remains(home: Home) -> None:
    with socket.socket() as foreign:
        foreign.bind(("127.0.0.1", home.port))
        foreign.listen()
        code, output = home.lmi("up", "--yes")
        assert code not in (0, 3), output
        assert str(home.port) in output
        assert "next: " in output
        foreign.close()
    home.up_serves("first")
    home.down_leaves_nothing()


def _is_running(process: psutil.Process) -> bool:
    """Not gone since it was listed, and not only waiting for its parent to collect its exit code."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_deployment_is_restarted_at_its_address_after_a_reboot(home: Home) -> None:
    home.done("up", "--yes")
    for process in home.processes():
        process.kill()
    until(lambda: not any(_is_running(process) for process in home.processes()))
    for run in home.runs:
        shutil.rmtree(run)
    code, response = home.status()
    assert (code, response["standing"]) == (4, "drifted")
    assert "machine restarted" in response["why"]
    home.up_serves("first")
    home.down_leaves_nothing()


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[], Path]]:
    """A file system of 2 MB at `folder`; yields a function that fills it with a file, which can be removed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    filler = folder / "filler"

    def fill() -> Path:
        with filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        return filler

    try:
        yield fill
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_full_disk_is_reported_and_up_continues_with_free_space(home: Home) -> None:
    with small_disk(home.root / "state") as fill:
        filler = fill()
        code, output = home.lmi("up", "--yes")
        assert code == 1, output
        assert "No space left on device" in output
        assert "next: " in output
        assert not home.processes()
        filler.unlink()
        home.up_serves("first")
        home.down_leaves_nothing()


def test_down_works_on_a_full_disk(home: Home) -> None:
    with small_disk(home.root / "state") as fill:
        home.up_serves("first")
        fill()
        assert home.invoke() == "first to me"
        home.down_leaves_nothing()


def test_two_concurrent_first_ups_get_different_ports(home: Home) -> None:
    text = RECIPE.replace(", port: PORT", "")
    names = ("tiny", "tiny-2")
    for name in names:
        (home.root / f"{name}.yaml").write_text(text.replace("name: tiny", f"name: {name}"))
    home.hold.touch()  # neither server listens before both are started
    with home.begin("up", "tiny.yaml", "--yes") as one, home.begin("up", "tiny-2.yaml", "--yes") as other:
        until(lambda: len(home.processes("lmi_deploy.server")) == 2)
        home.hold.unlink()
        outputs = [process.communicate(timeout=TIMEOUT)[0] for process in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], outputs
    addresses = set()
    for name in names:
        addresses.add(json.loads(home.done("status", name, "--json").splitlines()[-1])["address"])
        home.done("down", name, "--yes")
    assert len(addresses) == 2
