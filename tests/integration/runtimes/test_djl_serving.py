"""Runtime djl-serving beyond the port: what the server is given, and what becomes of it when it is killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from lmi_deploy.domain.observed import SeenServer
from lmi_deploy.errors import DeployFailed
from lmi_deploy.host.background_processes import LocalProcesses
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.runtimes.djl_serving.installation import find_installation
from lmi_deploy.runtimes.djl_serving.runtime import DjlServing
from lmi_deploy.runtimes.server_dirs import chosen_port
from tests.contract.test_model_server import ask, refuses
from tests.support.djl_stand_in import install
from tests.support.running_server import PATIENCE

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
class Yard:
    """Stand-ins for DJLServing, and a model that answers with the variable it is asked for."""

    root: Path
    homes: list[Path] = field(default_factory=list)
    clock: SystemClock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self.environ = install(self.root / "djl")
        self.servers = self.opened(self.environ)

    def opened(self, environ: dict[str, str]) -> DjlServing:
        return DjlServing(LocalProcesses(self.clock), environ, lambda: find_installation(environ))

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
        seen = self.until(launch.home, lambda seen: seen.phase not in ("starting", "loading"))
        assert seen.phase == "ready", self.servers.log(launch.home).read_text()
        assert seen.port
        return seen.port

    def until(self, home: Path, good: Callable[[SeenServer], bool]) -> SeenServer:
        deadline = self.clock.monotonic() + PATIENCE
        while not good(seen := self.servers.look(home)):
            assert self.clock.monotonic() < deadline, seen
            self.clock.sleep(0.05)
        return seen


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    yard = Yard(tmp_path)
    yield yard
    for home in yard.homes:
        yard.servers.stop(home, grace=1)


def test_each_server_has_a_temporary_folder_of_its_own(yard: Yard) -> None:
    """In one that they share, the second would take the first one's workers for left-overs and kill them."""
    one = yard.ready(yard.launch("a"))
    two = yard.ready(yard.launch("b", JAVA_OPTS="-Xmx1g"))
    assert ask(one, "JAVA_OPTS") != ask(two, "JAVA_OPTS").removeprefix("-Xmx1g ")
    assert ask(two, "JAVA_OPTS").startswith("-Xmx1g -Djava.io.tmpdir=")


def test_the_variables_of_the_recipe_reach_it_but_those_that_would_move_it(yard: Yard) -> None:
    launch = yard.launch(
        "a", OPTION_DTYPE="fp16", SERVING_JOB_QUEUE_SIZE="7", SERVING_INFERENCE_ADDRESS="http://0.0.0.0:1"
    )
    port = yard.ready(launch)
    assert (ask(port, "OPTION_DTYPE"), ask(port, "SERVING_JOB_QUEUE_SIZE")) == ("fp16", "7")
    assert ask(port, "SERVING_INFERENCE_ADDRESS") == "None"
    assert ask(port, "PYTHON_EXECUTABLE") == sys.executable
    assert ask(port, "DJL_CACHE_DIR").startswith(str(launch.home))
    assert yard.servers.look(launch.home).memory > 0


def test_a_server_that_is_killed_has_failed_and_one_that_is_asked_to_end_has_not(yard: Yard) -> None:
    launch = yard.launch("a")
    os.kill(int(ask(yard.ready(launch), "pid")), signal.SIGKILL)
    assert yard.until(launch.home, lambda seen: seen.phase != "ready").phase in ("starting", "failed")
    assert yard.until(launch.home, lambda seen: seen.phase == "failed").pid is None
    assert yard.servers.failure(launch.home).startswith("DJLServing ended with exit code 137: killed")
    os.kill(int(ask(yard.ready(launch), "pid")), signal.SIGTERM)
    yard.until(launch.home, lambda seen: seen.phase == "gone")
    assert yard.servers.failure(launch.home) == ""


def test_a_server_is_found_though_we_were_killed_before_its_note(yard: Yard) -> None:
    launch = yard.launch("a")
    port = yard.ready(launch)
    (launch.home / "process.json").unlink()
    assert yard.servers.look(launch.home).phase == "ready"
    yard.servers.stop(launch.home, grace=5)
    assert refuses(port)
    assert yard.servers.look(launch.home).phase == "gone"


def test_another_server_at_its_port_is_not_taken_for_it(yard: Yard) -> None:
    """Both saw a free port, and the other was faster."""
    slow = yard.launch("a")
    (slow.model_folder / "model.py").write_text(f"import time\ntime.sleep(2)\n{HANDLER}")
    port = chosen_port("127.0.0.1", 0)
    yard.servers.start(replace(slow, port=port))
    fast = replace(yard.launch("b"), port=port)
    assert yard.ready(fast) == port
    assert yard.servers.look(slow.home).phase == "starting"
    yard.until(slow.home, lambda seen: seen.phase == "failed")
    assert yard.servers.failure(slow.home).startswith("DJLServing ended with exit code 1")


def test_in_the_foreground_it_takes_the_users_own_settings(yard: Yard, tmp_path: Path) -> None:
    settings = tmp_path / "config.properties"
    settings.write_text("job_queue_size=5\ninference_address=http://0.0.0.0:1\n")
    home = tmp_path / "home"
    home.mkdir()
    launch = replace(yard.launch("a"), home=home, port=chosen_port("127.0.0.1", 0))
    codes: list[int] = []
    thread = threading.Thread(
        target=lambda: codes.append(yard.servers.foreground(replace(launch, settings=settings)))
    )
    thread.start()
    deadline = yard.clock.monotonic() + PATIENCE
    while refuses(launch.port):
        assert yard.clock.monotonic() < deadline
        yard.clock.sleep(0.05)
    written = (home / "config.properties").read_text()
    os.kill(int(ask(launch.port, "pid")), signal.SIGTERM)
    thread.join(PATIENCE)
    assert codes == [143]
    assert "job_queue_size=5" in written
    assert f"inference_address=http://127.0.0.1:{launch.port}" in written


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"DJL_SERVING_HOME": ""}, "DJL_SERVING_HOME is not set and there is no djl-serving on PATH"),
        ({"DJL_SERVING_HOME": "/nowhere"}, "there is no program /nowhere/bin/serving"),
        ({"JAVA_HOME": "/nowhere"}, "it needs a Java"),
    ],
)
def test_where_none_is_installed_it_says_what_is_missing(
    yard: Yard, changed: dict[str, str], why: str
) -> None:
    servers = yard.opened({**yard.environ, **changed})
    with pytest.raises(DeployFailed, match=f"there is no DJLServing here: .*{why}"):
        servers.start(yard.launch("a"))
