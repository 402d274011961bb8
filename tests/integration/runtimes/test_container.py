"""Runtime container beyond the port suite, on podman: its layout, its owner, its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from lmi_deploy.domain.deployment_artifact import MARKER
from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.domain.settings_digest import digest, short
from lmi_deploy.errors import DeployFailed
from lmi_deploy.host.background_processes import LocalProcesses
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.runtimes.container.container_cli import find_engine
from lmi_deploy.runtimes.container.container_command import container_name
from lmi_deploy.runtimes.container.runtime import ContainerServer
from lmi_deploy.runtimes.runtime_detection import RuntimeDetector
from lmi_deploy.runtimes.server_dirs import read_note
from tests.contract.test_model_server import invoke, refuses
from tests.support import own_server
from tests.support.container_image import image, podman_environ
from tests.support.running_server import TIMEOUT

pytestmark = pytest.mark.landing

HANDLER = """
import os
from djl_python import Output

def handle(inputs):
    if inputs.is_empty():
        return None
    asked = inputs.get_as_string()
    return Output().add(open(asked).read() if asked.startswith("/") else str(os.environ.get(asked)))
"""


@dataclass
class ContainerSetup:
    """podman, and a model that answers with the requested file or variable."""

    root: Path
    homes: list[Path] = field(default_factory=list)
    clock: SystemClock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self.environ = podman_environ()
        self.servers = ContainerServer(
            LocalProcesses(self.clock), self.environ, lambda: find_engine(self.environ)
        )

    def launch(self, **environment: str) -> Launch:
        folder = self.root / "model folder"
        folder.mkdir()
        (folder / "model.py").write_text(HANDLER)
        self.homes.append(self.root / "home")
        return Launch(
            model_folder=folder,
            home=self.homes[-1],
            python=Path("/nowhere"),
            engine=Path("/nowhere"),
            host="127.0.0.1",
            port=0,
            environment=environment,
            labels={"deployment": f"t{short(digest(str(self.root)), 8)}", "server": "s1"},
            image=image(),
        )

    def ready(self, launch: Launch) -> int:
        self.servers.start(launch)
        observed = self.until(lambda observed: observed.phase not in ("starting", "loading"))
        assert observed.phase == "ready", self.servers.log(launch.home).read_text()
        assert observed.port
        return observed.port

    def until(self, good: Callable[[ObservedServer], bool]) -> ObservedServer:
        deadline = self.clock.monotonic() + TIMEOUT
        while not good(observed := self.servers.status(self.homes[-1])):
            assert self.clock.monotonic() < deadline, observed
            self.clock.sleep(0.05)
        return observed

    def podman(self, *words: str) -> str:
        done = subprocess.run(["podman", *words], check=False, capture_output=True, text=True)
        return done.stdout.strip()


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[ContainerSetup]:
    setup = ContainerSetup(tmp_path)
    yield setup
    for home in setup.homes:
        setup.servers.stop(home, grace=1)


def _snapshot(root: Path) -> Path:
    """A model in the Hub's cache: its files are links into another folder."""
    blobs, snapshot = root / "models--a--b" / "blobs", root / "models--a--b" / "snapshots" / "c1"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (blobs / "f00").write_text("weights")
    (snapshot / "model.safetensors").symlink_to("../../blobs/f00")
    return snapshot


def test_container_layout_is_that_of_sagemaker(setup: ContainerSetup, tmp_path: Path) -> None:
    weights = _snapshot(tmp_path)
    launch = replace(setup.launch(OPTION_DTYPE="fp16", HOME="/tmp", SECRETIVE="two\nlines"), weights=weights)
    port = setup.ready(launch)
    # The stand-in itself refuses a writable model folder, and any argument other than `serve`.
    assert invoke(port, "/opt/ml/model/model.py") == HANDLER
    assert invoke(port, str(weights / "model.safetensors")) == "weights"
    assert (invoke(port, "OPTION_DTYPE"), invoke(port, "HOME")) == ("fp16", "/tmp")
    assert invoke(port, "SECRETIVE") == "two\nlines"
    assert (invoke(port, "HF_HUB_OFFLINE"), invoke(port, "HF_TOKEN")) == ("1", "None")
    # Every user can read the arguments of the client.
    client = read_note(launch.home / "process.json")["pid"]
    assert b"lines" not in Path(f"/proc/{client}/cmdline").read_bytes()
    observed = setup.servers.status(launch.home)
    assert observed.pid
    assert observed.memory > 0
    assert observed.since


def test_server_of_the_user_is_ready_when_ping_answers_200(setup: ContainerSetup) -> None:
    launch = setup.launch(LMI_MODEL_PATH="/opt/ml/model")
    (launch.model_folder / MARKER).write_text("{}")
    port = setup.ready(replace(launch, image=image(Path(own_server.__file__))))
    request = urllib.request.Request(f"http://127.0.0.1:{port}/invocations", data=b'{"input": "amazon"}')
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        assert json.load(response) == {"output": "AMAZON", "weights": [MARKER, "model.py"]}


def test_container_is_found_by_its_labels(setup: ContainerSetup) -> None:
    launch = setup.launch()
    setup.ready(launch)
    deployment = launch.labels["deployment"]
    name = f"lmi-{deployment}-s1"
    assert container_name(launch) == name
    found = setup.podman("ps", "--filter", f"label=lmi.deployment={deployment}", "--format", "{{.Names}}")
    assert found == name


def test_container_outlives_the_client_that_writes_its_log(setup: ContainerSetup) -> None:
    launch = setup.launch()
    port = setup.ready(launch)
    os.kill(int(read_note(launch.home / "process.json")["pid"]), signal.SIGKILL)
    assert setup.servers.status(launch.home).phase == "ready"
    assert invoke(port, "HF_TOKEN") == "None"
    setup.servers.stop(launch.home, grace=5)
    assert refuses(port)
    assert setup.podman("ps", "-a", "-q", "--filter", f"name={container_name(launch)}") == ""


def test_container_removed_by_others_is_gone(setup: ContainerSetup) -> None:
    launch = setup.launch()
    setup.ready(launch)
    setup.podman("rm", "-f", container_name(launch))
    assert setup.until(lambda observed: observed.phase not in ("ready", "starting")).phase == "gone"
    assert setup.servers.failure(launch.home) == ""


def test_killed_container_has_failed(setup: ContainerSetup) -> None:
    launch = setup.launch()
    setup.ready(launch)
    setup.podman("kill", container_name(launch))
    assert setup.until(lambda observed: observed.phase not in ("ready", "starting")).phase == "failed"
    assert setup.servers.failure(launch.home).startswith("the container ended with exit code 137")


def test_foreign_container_is_never_touched(setup: ContainerSetup) -> None:
    launch = setup.launch()
    name = container_name(launch)
    setup.podman("create", "--name", name, "--runtime", "runc", image(), "serve")
    try:
        with pytest.raises(DeployFailed, match=f"a container {name} exists"):
            setup.servers.start(launch)
        setup.servers.stop(launch.home, grace=1)
        assert setup.podman("ps", "-a", "--format", "{{.Names}}", "--filter", f"name={name}") == name
    finally:
        setup.podman("rm", "-f", name)


def test_missing_image_is_not_pulled(setup: ContainerSetup) -> None:
    launch = replace(setup.launch(), image="localhost/lmi-nobody:1")
    setup.servers.start(launch)
    assert setup.until(lambda observed: observed.phase != "starting").phase == "failed"
    why = setup.servers.failure(launch.home)
    assert why.startswith("the container was not created")
    assert "lmi-nobody" in why


def test_runtime_is_available_when_the_image_exists(setup: ContainerSetup) -> None:
    machinery = RuntimeDetector(
        processes=LocalProcesses(setup.clock),
        environ=setup.environ,
        environment=setup.environ,
        devices=lambda: 0,
    )
    assert machinery.at_hand(image()).names[0] == "container"
    other = machinery.at_hand("localhost/lmi-nobody:1")
    assert "container" not in other.names
    assert other.lacking["container"].startswith("podman has no image localhost/lmi-nobody:1")
