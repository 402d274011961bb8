"""`lmi up` on other runtimes, from the composition root: real processes, a stand-in for DJLServing, podman."""

from __future__ import annotations

import io
import json
import os
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.context import DependenciesFactory
from lmi_deploy.cli.error_boundary import run
from lmi_deploy.composition.local import wire
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.runtimes.server_dirs import chosen_port
from lmi_deploy.targets.local.target import LocalTarget
from lmi_deploy.targets.target import Target
from lmi_deploy.workflows.dependencies import Dependencies
from tests.support.action_failures import ActionFailures, Killed, When, failing
from tests.support.container_image import image, podman_environ, remove_images
from tests.support.djl_stand_in import install
from tests.support.fakes import FakeEnvironments
from tests.support.running_server import TIMEOUT

RECIPE = """\
name: tiny
model_id: ./model
engine: custom
task: text-generation
handler: {file: model.py}
probe: {body: hello, content_type: text/plain, expect: hello}
endpoint: {target: local, port: PORT}
"""
HANDLER = """
from djl_python import Output

def handle(inputs):
    return None if inputs.is_empty() else Output().add("ANSWER " + inputs.get_as_string())
"""


class InstalledEnvironments(FakeEnvironments):
    """Every environment is this interpreter."""

    def python(self, environment: str) -> Path:
        return Path(sys.executable)


@dataclass
class RuntimeCase:
    """A folder with a recipe and its model, and a machine with the variables `environ`."""

    root: Path
    environ: dict[str, str]
    target: Callable[[Target], Target] = lambda target: target

    def __post_init__(self) -> None:
        (self.root / "model").mkdir()
        (self.root / "model" / "config.json").write_text("{}")
        (self.root / "model" / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
        (self.root / "tiny.yaml").write_text(RECIPE.replace("PORT", str(chosen_port("127.0.0.1", 0))))
        self.handler("first")

    def handler(self, text: str) -> None:
        (self.root / "model.py").write_text(HANDLER.replace("ANSWER", text))

    def deps(self) -> Dependencies:
        deps = wire({**self.environ, "LMI_STATE_HOME": str(self.root / "state")})
        environments = InstalledEnvironments(self.root / "environments")
        local = deps.targets["local"]
        assert isinstance(local, LocalTarget)
        local = replace(local, environments=environments)
        return replace(deps, environments=environments, targets={"local": self.target(local)})

    def lmi(self, *argv: str) -> tuple[int, str]:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run(lmi, argv, given=DependenciesFactory(self.deps))
        return code, out.getvalue() + err.getvalue()

    def run_json(self, *argv: str) -> list[dict[str, Any]]:
        code, output = self.lmi(*argv, "--json")
        assert code == 0, output
        return [json.loads(line) for line in output.splitlines()]


def opened(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[RuntimeCase]:
    # Short, because sockets are created below it.
    with TemporaryDirectory() as folder:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        runtime_case = RuntimeCase(Path(folder), environ)
        yield runtime_case
        runtime_case.lmi("down", "--yes", "tiny")


@pytest.fixture
def djl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[RuntimeCase]:
    environ = dict(os.environ) if "DJL_SERVING_HOME" in os.environ else install(tmp_path / "djl")
    yield from opened(environ, monkeypatch)


@pytest.fixture
def podman(monkeypatch: pytest.MonkeyPatch) -> Iterator[RuntimeCase]:
    for runtime_case in opened(podman_environ(), monkeypatch):
        yield runtime_case
        remove_images(label=f"run={runtime_case.root.name}")


def steps(messages: list[dict[str, Any]]) -> list[str]:
    return [line["key"].partition(":")[0] for line in messages if line["event"] == "finished"]


def chosen_runtime(messages: list[dict[str, Any]]) -> str:
    with urllib.request.urlopen(messages[-1]["address"], b"hi", timeout=TIMEOUT) as response:
        body: bytes = response.read()
    return body.decode()


def test_installed_djl_serving_serves_and_is_replaced_by_the_next_generation(djl: RuntimeCase) -> None:
    up = djl.run_json("up", "--yes", "--runtime", "djl-serving")
    assert steps(up) == ["BuildEnvironment", "PutArtifact", "StartServer", "AwaitReady", "ProbeServer"]
    assert chosen_runtime(up) == "first hi"
    observed = djl.run_json("status", "tiny")[-1]
    assert (observed["standing"], observed["summary"]["runtime"]) == ("in-step", "djl-serving")
    djl.handler("second")
    code, plan = djl.lmi("plan", "--runtime", "djl-serving")
    assert code == 0
    assert "requests are refused while the model loads again" in plan
    changed = djl.run_json("up", "--yes", "--runtime", "djl-serving")
    assert steps(changed)[-3:] == ["TakeAddress", "StopServer", "RemoveArtifact"]
    assert changed[-1]["address"] == up[-1]["address"]
    assert chosen_runtime(changed) == "second hi"
    assert djl.run_json("plan", "--runtime", "djl-serving")[-1]["pending"] is False


TAKE_ADDRESS = 4
"""Its position among the actions of a change."""


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_up_converges_after_a_kill_during_the_takeover(djl: RuntimeCase, when: str) -> None:
    chosen = ("--runtime", "djl-serving")
    up = djl.run_json("up", "--yes", *chosen)
    djl.handler("second")
    moment: When = "after" if when == "after" else "before"
    failures = ActionFailures(at=TAKE_ADDRESS, when=moment, error=Killed)
    djl.target = lambda target: failing(target, failures)
    with pytest.raises(Killed):
        djl.lmi("up", "--yes", *chosen)
    djl.target = lambda target: target
    if when == "between":
        # The previous server has ended, the next is not at the address yet.
        local = djl.deps().targets["local"]
        assert isinstance(local, LocalTarget)
        serving = local.observe(DeploymentRef(name="tiny", target="local")).serving
        home = local.state.server("tiny", serving or "")
        local.server_of(home).stop(home, grace=5)
    changed = djl.run_json("up", "--yes", *chosen)
    assert changed[-1]["address"] == up[-1]["address"]
    assert chosen_runtime(changed) == "second hi"
    assert djl.run_json("plan", *chosen)[-1]["pending"] is False


def test_down_removes_the_deployment(djl: RuntimeCase) -> None:
    djl.run_json("up", "--yes", "--runtime", "djl-serving")
    assert djl.lmi("down", "--yes", "tiny")[0] == 0
    assert djl.run_json("ls")[-1]["deployments"] == 0


def test_handler_load_error_is_reported_with_its_message(djl: RuntimeCase) -> None:
    (djl.root / "model.py").write_text("raise RuntimeError('no such model')\ndef handle(inputs): pass\n")
    code, output = djl.lmi("up", "--yes", "--runtime", "djl-serving")
    assert code == 1
    assert "the model server failed to start: RuntimeError: no such model" in output


def test_container_needs_no_local_environment_or_engine(podman: RuntimeCase) -> None:
    chosen = ("--set", f"container.image={image()}")
    up = podman.run_json("up", "--yes", *chosen)
    assert steps(up) == ["PutArtifact", "StartServer", "AwaitReady", "ProbeServer"]
    observed = podman.run_json("status", "tiny")[-1]
    assert (observed["standing"], observed["summary"]["runtime"]) == ("in-step", "container")
    podman.handler("second")
    changed = podman.run_json("up", "--yes", *chosen)
    assert changed[-1]["address"] == up[-1]["address"]
    assert chosen_runtime(changed) == "second hi"
    assert podman.run_json("plan", *chosen)[-1]["pending"] is False


def test_image_is_built_once_and_served_without_a_registry(podman: RuntimeCase) -> None:
    folder = podman.root / "image"
    folder.mkdir()
    # The engine keeps images between runs: only an image of this run's own is certain to be built.
    (folder / "Dockerfile").write_text(f"FROM {image()}\nLABEL run={podman.root.name}\n")
    chosen = ("--set", "container.build=./image")
    up = podman.run_json("up", "--yes", *chosen)
    assert steps(up) == ["BuildImage", "PutArtifact", "StartServer", "AwaitReady", "ProbeServer"]
    assert chosen_runtime(up) == "first hi"
    assert podman.run_json("plan", *chosen)[-1]["pending"] is False
    podman.handler("second")
    assert "BuildImage" not in steps(podman.run_json("up", "--yes", *chosen))
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY nothing /\n")
    code, output = podman.lmi("up", "--yes", *chosen)
    assert code == 1
    assert "correct the Dockerfile" in output
    assert podman.run_json("status", "tiny")[-1]["standing"] == "in-step"


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        (
            ("--runtime", "container"),
            "container is not available on this machine: no image is named (container.image)",
        ),
        (
            ("--runtime", "container", "--set", "container.image=localhost/lmi-nobody:1"),
            "has no image localhost/lmi-nobody:1",
        ),
    ],
)
def test_unavailable_runtime_is_refused_with_the_reason(
    podman: RuntimeCase, extra: tuple[str, ...], why: str
) -> None:
    code, output = podman.lmi("plan", *extra)
    assert code == 2
    assert why in output
    assert "available: " in output
