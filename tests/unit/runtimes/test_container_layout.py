"""The command line of a container."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.ports.processes import CommandResult, Process, Report
from lmi_deploy.runtimes.container.container_cli import ContainerCli, ContainerEngine, find_engine
from lmi_deploy.runtimes.container.container_command import command, weight_folders

DOCKER = ContainerEngine(kind="docker", program="/usr/bin/docker", flags=())


def launch(root: Path, *, devices: int = 0, **environment: str) -> Launch:
    return Launch(
        model_folder=root / "model",
        home=root / "home",
        python=root,
        engine=root,
        host="127.0.0.1",
        port=8080,
        environment=environment,
        labels={"deployment": "tiny", "server": "abc"},
        image="repo/image:1",
        devices=devices,
    )


def test_complete_run_command(tmp_path: Path) -> None:
    container_command = command(launch(tmp_path, A="b", HOME="/x"), DOCKER, 9000, client={"HOME": "/root"})
    assert container_command.argv == [
        *("/usr/bin/docker", "run", "--pull", "never", "--name", "lmi-tiny-abc"),
        *("--cidfile", f"{tmp_path}/home/container.id"),
        *(
            "--label",
            "lmi.deployment=tiny",
            "--label",
            "lmi.server=abc",
            "--label",
            f"lmi.home={tmp_path}/home",
        ),
        *("--mount", f"type=bind,source={tmp_path}/model,target=/opt/ml/model,readonly"),
        *("-e", "A", "-e", "HF_HUB_OFFLINE", "-e", "HOME=/x", "-e", "TRANSFORMERS_OFFLINE"),
        *("-p", "127.0.0.1:9000:8080", "repo/image:1", "serve"),
    ]
    assert container_command.environment == {"A": "b", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@pytest.mark.parametrize("flags", [("--network=host",), ("--net", "host"), ("--network", "host", "--rm")])
def test_server_listens_itself_on_the_host_network(tmp_path: Path, flags: tuple[str, ...]) -> None:
    engine = ContainerEngine(kind="podman", program="podman", flags=flags)
    container_command = command(launch(tmp_path), engine, 9000, client={}, settings={"job_queue_size": "5"})
    assert "-p" not in container_command.argv
    assert container_command.environment["SERVING_INFERENCE_ADDRESS"] == "http://127.0.0.1:9000"
    assert container_command.environment["SERVING_JOB_QUEUE_SIZE"] == "5"
    assert not ContainerEngine(kind="podman", program="podman", flags=("--network", "mine")).on_host_network


@pytest.mark.parametrize(
    ("kind", "flags"),
    [("docker", "--gpus all"), ("podman", "--device nvidia.com/gpu=all"), ("finch", "--gpus all")],
)
def test_gpu_flags_depend_on_the_container_cli(tmp_path: Path, kind: str, flags: str) -> None:
    engine = ContainerEngine(kind=kind, program=kind, flags=())
    assert flags in " ".join(command(launch(tmp_path, devices=1), engine, 1, client={}).argv)
    assert flags not in " ".join(command(launch(tmp_path), engine, 1, client={}).argv)


def test_mounts_include_the_targets_of_links(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "m" / "blobs", tmp_path / "m" / "snapshots" / "c"
    (snapshot / "sub").mkdir(parents=True)
    blobs.mkdir()
    (snapshot / "config.json").write_text("{}")
    (snapshot / "sub" / "w").symlink_to("../../../blobs/f")
    assert weight_folders(snapshot) == (blobs, snapshot)
    assert weight_folders(tmp_path / "m") == (tmp_path / "m",)


def _programs(folder: Path, *names: str) -> dict[str, str]:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


def test_first_container_cli_on_path_is_used_unless_one_is_named(tmp_path: Path) -> None:
    environ = _programs(tmp_path, "podman", "finch")
    found = find_engine(environ)
    assert isinstance(found, ContainerEngine)
    assert found.kind == "podman"
    named = find_engine(
        {**environ, "LMI_CONTAINER_ENGINE": "finch", "LMI_CONTAINER_FLAGS": "--shm-size '1 g'"}
    )
    assert isinstance(named, ContainerEngine)
    assert (named.kind, named.flags) == ("finch", ("--shm-size", "1 g"))
    assert find_engine({"PATH": ""}) == "none of docker, podman, finch is on PATH"
    assert "LMI_CONTAINER_ENGINE is docker" in str(find_engine({**environ, "LMI_CONTAINER_ENGINE": "docker"}))


class Scripted:
    """The port Processes with only `run`: it returns the given result."""

    def __init__(self, result: CommandResult) -> None:
        self.output = result

    def run(
        self, argv: Sequence[str], *, environment: Mapping[str, str], timeout: float, stdin: str = ""
    ) -> CommandResult:
        return self.output

    def start(self, argv: Sequence[str], *, log: Path, cwd: Path, environment: Mapping[str, str]) -> Process:
        raise NotImplementedError

    def foreground(
        self, argv: Sequence[str], *, environment: Mapping[str, str], report: Report | None = None
    ) -> int:
        raise NotImplementedError

    def identify(self, pid: int) -> Process | None:
        raise NotImplementedError

    def alive(self, process: Process) -> bool:
        raise NotImplementedError

    def end(self, process: Process, *, grace: float) -> None:
        raise NotImplementedError

    def memory(self, process: Process) -> int:
        raise NotImplementedError


def cli_with(result: CommandResult) -> ContainerCli:
    return ContainerCli(processes=Scripted(result), engine=DOCKER, environment={})


def inspected(**settings: object) -> CommandResult:
    return CommandResult(code=0, out=json.dumps([{"Config": settings}]), err="")


def test_cuda_image_needs_a_gpu() -> None:
    cuda = inspected(Env=["PATH=/bin", "CUDA_VERSION=12.8.1"], Labels=None)
    assert cli_with(cuda).lacking("i", devices=0) == "image i needs CUDA, but this machine has no GPU"
    assert cli_with(cuda).lacking("i", devices=1) == ""
    assert cli_with(inspected(Env=None, Labels={})).lacking("i", devices=0) == ""


@pytest.mark.parametrize(
    "result",
    [
        CommandResult(code=1, out="[]\n", err="Error response from daemon: No such image: i"),
        CommandResult(code=125, out="[]", err="Error: inspecting object: i: image not known"),
        CommandResult(code=1, out="", err="no image found"),
    ],
)
def test_missing_image_is_not_pulled(result: CommandResult) -> None:
    assert cli_with(result).lacking("i", devices=0).startswith("docker has no image i; run `docker pull i`")


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (
            CommandResult(code=1, out="", err="Cannot connect to the Docker daemon"),
            "could not inspect i: Cannot connect",
        ),
        (CommandResult(code=124, out="", err="too slow"), "does not answer: too slow"),
    ],
)
def test_failing_container_cli_is_not_a_missing_image(result: CommandResult, why: str) -> None:
    with pytest.raises(DeployFailed, match=why):
        cli_with(result).container("i")
