"""The program that runs for a container is chosen by its image, and found again by its home alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmi_deploy.emulator.container_programs import ContainerPrograms, repository_of
from lmi_deploy.errors import DeployFailed
from lmi_deploy.host.background_processes import LocalProcesses
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.runtimes.server_process import HttpProgram, ProgramCommand, ProgramServer
from tests.support.fake_servers import FakeModelServers

TRITON = "763104351884.dkr.ecr.us-east-1.amazonaws.com/sagemaker-tritonserver:26.05-py3"
LMI = "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.36.0-lmi27.0.0-cu130"


def launch(root: Path, image: str) -> Launch:
    return Launch(
        model_folder=root / "model",
        home=root / "home",
        python=root,
        engine=root,
        host="127.0.0.1",
        port=0,
        environment={},
        labels={},
        image=image,
    )


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        (TRITON, "sagemaker-tritonserver"),
        (LMI, "djl-inference"),
        ("111122223333.dkr.ecr.eu-west-1.amazonaws.com/team/gpt2@sha256:" + "0" * 64, "team/gpt2"),
        ("localhost:5000/team/gpt2:1", "team/gpt2"),
        ("team/gpt2", "team/gpt2"),
        ("gpt2:1", "gpt2"),
        ("", ""),
    ],
)
def test_repository_is_read_from_the_image(image: str, repository: str) -> None:
    assert repository_of(image) == repository


@pytest.mark.parametrize(("image", "is_triton"), [(TRITON, True), (LMI, False), ("", False)])
def test_program_is_chosen_by_the_repository(tmp_path: Path, image: str, is_triton: bool) -> None:
    djl, triton = FakeModelServers(), FakeModelServers()
    programs = ContainerPrograms(djl, {"*-tritonserver": triton})
    started = launch(tmp_path, image)
    programs.start(started)
    server, other = (triton, djl) if is_triton else (djl, triton)
    assert server.status(started.home).phase != "gone"
    assert other.status(started.home).phase == "gone"
    again = ContainerPrograms(djl, {"*-tritonserver": triton})
    assert again.status(started.home).phase in ("loading", "ready")
    again.stop(started.home, grace=1)
    assert server.status(started.home).phase == "gone"
    djl.close()
    triton.close()


def test_program_that_cannot_be_started_is_a_container_that_exits_with_the_reason(tmp_path: Path) -> None:
    def command(launch: Launch, port: int) -> ProgramCommand:
        raise DeployFailed("no tritonserver on this machine", hint="build its environment")

    kind = HttpProgram(runtime="triton", title="tritonserver", command=command)
    server = ProgramServer(LocalProcesses(SystemClock()), kind)
    programs, started = (
        ContainerPrograms(FakeModelServers(), {"*-tritonserver": server}),
        launch(tmp_path, TRITON),
    )
    assert programs.start(started).phase == "failed"
    assert programs.status(started.home).phase == "failed"
    message = "no tritonserver on this machine. build its environment"
    assert server.failure(started.home) == message
    assert programs.log(started.home).read_text() == f"{message}\n"
    programs.stop(started.home, grace=1)
    assert programs.status(started.home).phase == "gone"
