"""Stand-ins of engines: chosen by image and handler, left out where the engine is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lmi_deploy.catalog.package_files import stand_ins
from lmi_deploy.catalog.stand_ins import STAND_IN_NOTICE, read_stand_ins
from lmi_deploy.domain.java_properties import parse_properties
from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.emulator.hosting.stand_ins import ServersWithStandIns
from lmi_deploy.host.background_processes import LocalProcesses
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.model_server import Launch

LMI = "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.36.0-lmi27.0.0-cu130"
SERVICE = "djl_python.lmi_vllm.vllm_async_service"
SERVER = """
import argparse, http.server
given = argparse.ArgumentParser()
given.add_argument("--model-dir"), given.add_argument("--port", type=int)
class Ping(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200), self.end_headers()
http.server.HTTPServer(("127.0.0.1", given.parse_args().port), Ping).serve_forever()
"""


class StartedServers:
    """The part of ModelServer that a container needs; remembers what it started."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def start(self, launch: Launch) -> ObservedServer:
        self.launches.append(launch)
        return self.status(launch.home)

    def status(self, home: Path) -> ObservedServer:
        return ObservedServer(server=home.name, phase="starting", pid=1, port=None)

    def stop(self, home: Path, *, grace: float) -> None:
        self.launches = [launch for launch in self.launches if launch.home != home]

    def log(self, home: Path) -> Path:
        return home / "server.log"


INSTALLED = Path("/installed")


def servers(started: StartedServers, root: Path, *, real: bool = False) -> ServersWithStandIns:
    return ServersWithStandIns(
        servers=started,
        stand_ins=read_stand_ins(root),
        imports=lambda python, name: real,
        install=lambda python, packages: INSTALLED / packages[0],
        processes=LocalProcesses(SystemClock()),
        environment={"PATH": "/usr/bin:/bin"},
    )


def launch(folder: Path, *, entry_point: str = SERVICE, image: str = LMI) -> Launch:
    (folder / "model").mkdir()
    (folder / "model" / "serving.properties").write_text(f"engine=Python\noption.entryPoint={entry_point}\n")
    return Launch(
        model_folder=folder / "model",
        home=folder / "home",
        python=Path(sys.executable),
        engine=folder,
        host="127.0.0.1",
        port=0,
        environment={"PYTHONPATH": "/mine"},
        labels={},
        image=image,
    )


def test_package_is_first_on_the_path_and_the_log_names_the_stand_in(tmp_path: Path) -> None:
    started = StartedServers()
    servers(started, stand_ins()).start(launch(tmp_path))
    assert started.launches[0].environment["PYTHONPATH"] == ":".join(
        (
            f"{stand_ins() / 'vllm'}",
            str(INSTALLED / "pydantic==2.14.3"),
            str(stand_ins() / "vllm" / "without_torch"),
            "/mine",
        )
    )
    assert (tmp_path / "home" / "server.log").read_text().startswith(f"{STAND_IN_NOTICE} vLLM")


@pytest.mark.parametrize(
    ("entry_point", "image", "real"),
    [
        ("djl_python.huggingface", LMI, False),
        (SERVICE, "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1", False),
        (SERVICE, LMI, True),
    ],
    ids=["another handler", "the user's image", "vLLM is installed"],
)
def test_no_stand_in_where_none_is_needed(tmp_path: Path, entry_point: str, image: str, real: bool) -> None:
    started = StartedServers()
    servers(started, stand_ins(), real=real).start(launch(tmp_path, entry_point=entry_point, image=image))
    assert started.launches[0].environment["PYTHONPATH"] == "/mine"


@pytest.mark.parametrize(
    ("image", "lines", "changed"),
    [
        (
            "0.21.0-fastertransformer5.3.0-cu117",
            "engine=FasterTransformer\noption.entryPoint=djl_python.fastertransformer\nminWorkers=1",
            {"engine": "Python", "option.entryPoint": "djl_fastertransformer", "minWorkers": "1"},
        ),
        (
            "0.24.0-fastertransformer5.3.0-cu118",
            "engine=FasterTransformer\noption.entryPoint=model.py",
            {"engine": "Python", "option.entryPoint": "model.py"},
        ),
        (
            "0.32.0-lmi14.0.0-cu126",
            "engine=MPI\noption.entryPoint=djl_python.huggingface\noption.rolling_batch=lmi-dist",
            {
                "engine": "Python",
                "option.entryPoint": "djl_rolling_batch",
                "option.rolling_batch": "disable",
            },
        ),
        (
            "0.32.0-lmi14.0.0-cu126",
            "engine=MPI\noption.entryPoint=djl_python.huggingface\noption.rolling_batch=disable",
            {
                "engine": "MPI",
                "option.entryPoint": "djl_python.huggingface",
                "option.rolling_batch": "disable",
            },
        ),
    ],
    ids=["its handler", "own script", "lmi-dist", "no lmi-dist"],
)
def test_container_of_an_old_image_gets_lines_that_the_engine_here_knows(
    tmp_path: Path, image: str, lines: str, changed: dict[str, str]
) -> None:
    started = StartedServers()
    here = launch(tmp_path, image=f"763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:{image}")
    (here.model_folder / "serving.properties").write_text(lines)
    servers(started, stand_ins()).start(here)
    assert parse_properties((here.model_folder / "serving.properties").read_bytes()) == changed


def test_server_program_takes_the_place_of_the_images_server(tmp_path: Path) -> None:
    folder = tmp_path / "stand_ins" / "tei"
    folder.mkdir(parents=True)
    (folder / "stand_in.toml").write_text('summary = "TEI"\nimages = ["tei:*"]\nserver = "server.py"\n')
    (folder / "server.py").write_text(SERVER)
    started = StartedServers()
    running = servers(started, tmp_path / "stand_ins")
    here = launch(tmp_path, image="683313688378.dkr.ecr.us-east-1.amazonaws.com/tei:2.0.1-tei1.8.2-gpu")
    observed = running.start(here)
    assert not started.launches
    assert (observed.phase, bool(observed.pid), bool(observed.port)) == ("loading", True, True)
    running.stop(here.home, grace=1.0)
    assert running.status(here.home).phase == "starting", "forgotten: the other servers are asked"


def test_program_that_ended_has_failed(tmp_path: Path) -> None:
    folder = tmp_path / "stand_ins" / "tei"
    folder.mkdir(parents=True)
    (folder / "stand_in.toml").write_text('summary = "TEI"\nimages = ["tei:*"]\nserver = "missing.py"\n')
    running = servers(StartedServers(), tmp_path / "stand_ins")
    here = launch(tmp_path, image="1.dkr.ecr/tei:1")
    running.start(here)
    clock = SystemClock()
    while (observed := running.status(here.home)).phase != "failed":
        clock.sleep(0.02)
    assert observed.port is None
