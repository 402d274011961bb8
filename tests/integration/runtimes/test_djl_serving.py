"""Runtime djl-serving beyond the port suite: what the server gets, and what follows when it is killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.errors import DeployFailed
from lmi_deploy.host.background_processes import LocalProcesses
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.runtimes.djl_serving import DjlServing, find_installation
from lmi_deploy.runtimes.server_dirs import chosen_port
from lmi_deploy.runtimes.server_process import ProgramServer
from tests.contract.test_model_server import invoke, refuses
from tests.support.djl_stand_in import install
from tests.support.running_server import TIMEOUT

HANDLER = """
import os
from djl_python import Output

def handle(inputs):
    if inputs.is_empty():
        return None
    asked = inputs.get_as_string()
    return Output().add(str(os.getpid() if asked == "pid" else os.environ.get(asked)))
"""


@dataclass
class DjlServingSetup:
    """Stand-ins for DJLServing, and a model that answers with the requested variable."""

    root: Path
    homes: list[Path] = field(default_factory=list)
    clock: SystemClock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self.environ = install(self.root / "djl")
        self.servers = self.opened(self.environ)

    def opened(self, environ: dict[str, str]) -> ProgramServer:
        program = DjlServing(environ, lambda: find_installation(environ))
        return ProgramServer(LocalProcesses(self.clock), program)

    def launch(self, name: str, **environment: str) -> Launch:
        folder = self.root / f"{name} one, two"
        folder.mkdir(exist_ok=True)
        (folder / "model.py").write_text(HANDLER)
        self.homes.append(self.root / f"{name}-home")
        return Launch(
            model_folder=folder,
            home=self.homes[-1],
            python=Path(sys.executable),
            engine=self.root,
            host="127.0.0.1",
            port=0,
            environment=environment,
            labels={},
        )

    def ready(self, launch: Launch) -> int:
        self.servers.start(launch)
        observed = self.until(launch.home, lambda observed: observed.phase not in ("starting", "loading"))
        assert observed.phase == "ready", self.servers.log(launch.home).read_text()
        assert observed.port
        return observed.port

    def until(self, home: Path, good: Callable[[ObservedServer], bool]) -> ObservedServer:
        deadline = self.clock.monotonic() + TIMEOUT
        while not good(observed := self.servers.status(home)):
            assert self.clock.monotonic() < deadline, observed
            self.clock.sleep(0.05)
        return observed


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[DjlServingSetup]:
    setup = DjlServingSetup(tmp_path)
    yield setup
    for home in setup.homes:
        setup.servers.stop(home, grace=1)


def test_each_server_has_a_temporary_folder_of_its_own(setup: DjlServingSetup) -> None:
    """In a shared one, the second server would take the first one's workers for leftovers and kill them."""
    one = setup.ready(setup.launch("a"))
    two = setup.ready(setup.launch("b", JAVA_OPTS="-Xmx1g"))
    assert invoke(one, "JAVA_OPTS") != invoke(two, "JAVA_OPTS").removeprefix("-Xmx1g ")
    assert invoke(two, "JAVA_OPTS").startswith("-Xmx1g -Djava.io.tmpdir=")


def test_recipe_variables_reach_the_server_except_its_address(setup: DjlServingSetup) -> None:
    launch = setup.launch(
        "a", OPTION_DTYPE="fp16", SERVING_JOB_QUEUE_SIZE="7", SERVING_INFERENCE_ADDRESS="http://0.0.0.0:1"
    )
    port = setup.ready(launch)
    assert (invoke(port, "OPTION_DTYPE"), invoke(port, "SERVING_JOB_QUEUE_SIZE")) == ("fp16", "7")
    assert invoke(port, "SERVING_INFERENCE_ADDRESS") == "None"
    assert invoke(port, "PYTHON_EXECUTABLE") == sys.executable
    assert invoke(port, "DJL_CACHE_DIR").startswith(str(launch.home))
    assert setup.servers.status(launch.home).memory > 0


def test_killed_server_has_failed_and_stopped_server_has_not(
    setup: DjlServingSetup,
) -> None:
    launch = setup.launch("a")
    os.kill(int(invoke(setup.ready(launch), "pid")), signal.SIGKILL)
    assert setup.until(launch.home, lambda observed: observed.phase != "ready").phase in (
        "starting",
        "failed",
    )
    assert setup.until(launch.home, lambda observed: observed.phase == "failed").pid is None
    assert setup.servers.failure(launch.home).startswith("DJLServing ended with exit code 137: killed")
    os.kill(int(invoke(setup.ready(launch), "pid")), signal.SIGTERM)
    setup.until(launch.home, lambda observed: observed.phase == "gone")
    assert setup.servers.failure(launch.home) == ""


def test_server_is_found_without_its_note(setup: DjlServingSetup) -> None:
    launch = setup.launch("a")
    port = setup.ready(launch)
    (launch.home / "process.json").unlink()
    assert setup.servers.status(launch.home).phase == "ready"
    setup.servers.stop(launch.home, grace=5)
    assert refuses(port)
    assert setup.servers.status(launch.home).phase == "gone"


def test_another_server_on_the_same_port_is_not_mistaken_for_it(setup: DjlServingSetup) -> None:
    """Both found the same free port, and the other was faster."""
    slow = setup.launch("a")
    (slow.model_folder / "model.py").write_text(f"import time\ntime.sleep(2)\n{HANDLER}")
    port = chosen_port("127.0.0.1", 0)
    setup.servers.start(replace(slow, port=port))
    fast = replace(setup.launch("b"), port=port)
    assert setup.ready(fast) == port
    assert setup.servers.status(slow.home).phase == "starting"
    setup.until(slow.home, lambda observed: observed.phase == "failed")
    assert setup.servers.failure(slow.home).startswith("DJLServing ended with exit code 1")


def test_foreground_server_uses_the_given_settings(setup: DjlServingSetup, tmp_path: Path) -> None:
    settings = tmp_path / "config.properties"
    settings.write_text("job_queue_size=5\ninference_address=http://0.0.0.0:1\n")
    home = tmp_path / "home"
    home.mkdir()
    launch = replace(setup.launch("a"), home=home, port=chosen_port("127.0.0.1", 0))
    codes: list[int] = []
    thread = threading.Thread(
        target=lambda: codes.append(setup.servers.foreground(replace(launch, settings=settings)))
    )
    thread.start()
    deadline = setup.clock.monotonic() + TIMEOUT
    while refuses(launch.port):
        assert setup.clock.monotonic() < deadline
        setup.clock.sleep(0.05)
    written = (home / "config.properties").read_text()
    os.kill(int(invoke(launch.port, "pid")), signal.SIGTERM)
    thread.join(TIMEOUT)
    assert codes == [143]
    assert "job_queue_size=5" in written
    assert f"inference_address=http://127.0.0.1:{launch.port}" in written


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"DJL_SERVING_HOME": ""}, "DJL_SERVING_HOME is not set and djl-serving is not on PATH"),
        ({"DJL_SERVING_HOME": "/nowhere"}, "/nowhere/bin/serving does not exist"),
        ({"JAVA_HOME": "/nowhere"}, "it needs Java"),
    ],
)
def test_missing_djl_serving_is_reported_with_the_reason(
    setup: DjlServingSetup, changed: dict[str, str], why: str
) -> None:
    servers = setup.opened({**setup.environ, **changed})
    with pytest.raises(DeployFailed, match=f"no DJLServing on this machine: .*{why}"):
        servers.start(setup.launch("a"))
