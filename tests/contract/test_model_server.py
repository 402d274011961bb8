"""The port ModelServer: the same tests on our fake and on every runtime. `djl-serving` is a stand-in unless
DJL_SERVING_HOME names a real one; `container` is podman, with an image of that stand-in; `program` is any program."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.domain.settings_digest import digest, short
from lmi_deploy.errors import DeployFailed
from lmi_deploy.host.background_processes import LocalProcesses
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.model_server import Launch, ModelServer
from lmi_deploy.ports.processes import Processes
from lmi_deploy.runtimes.container.container_cli import find_engine
from lmi_deploy.runtimes.container.runtime import ContainerServer
from lmi_deploy.runtimes.djl_serving import DjlServing, find_installation
from lmi_deploy.runtimes.embedded import Embedded
from lmi_deploy.runtimes.server_process import HttpProgram, ProgramCommand, ProgramServer
from tests.support.container_image import image, podman_environ
from tests.support.djl_engine import engine_dir
from tests.support.djl_stand_in import PROGRAM, install
from tests.support.fake_servers import Behaviour, FakeModelServers
from tests.support.fakes import FakeClock
from tests.support.running_server import TIMEOUT, worker_python

PROPERTIES = "engine=Python\noption.rolling_batch=disable\nminWorkers=1\nmaxWorkers=1\n"
HANDLER = """
import time
from djl_python import Output
time.sleep(0.3)
{broken}

def handle(inputs):
    return None if inputs.is_empty() else Output().add("{answer}")
"""
SERVE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from fake_djl_serving import loaded, serve
folder = Path(sys.argv[3])
serve({"inference_address": sys.argv[2]}, folder.name, folder, loaded(folder.name, folder))
"""
BROKEN = 'raise RuntimeError("no such model")'


class ServerBench(Protocol):
    """One implementation, and how a model gets into it."""

    clock: Clock
    counts: bool
    """Whether the server reports how many requests it answered."""

    @property
    def servers(self) -> ModelServer: ...

    def again(self) -> ModelServer:
        """As another process would open it."""

    def model(self, folder: Path, response: str | None) -> None:
        """A model that answers with that text, or fails to load."""

    def close(self) -> None: ...


@dataclass
class FakeServerBench:
    counts = True
    servers: FakeModelServers = field(default_factory=FakeModelServers)
    clock: Clock = field(default_factory=FakeClock)

    def again(self) -> ModelServer:
        return self.servers

    def model(self, folder: Path, response: str | None) -> None:
        text = (response or "").encode()
        behaviour = Behaviour(
            end="ready" if response else "failed", answer=lambda body: (200, "text/plain", text)
        )
        self.servers.next.append(behaviour)

    def close(self) -> None:
        self.servers.close()


@dataclass
class RealServerBench:
    """Real processes; `make` opens the runtime."""

    make: Callable[[Processes], ModelServer]
    counts: bool = False
    clock: Clock = field(default_factory=SystemClock)
    homes: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.servers: ModelServer = self.again()

    def again(self) -> ModelServer:
        return self.make(LocalProcesses(self.clock))

    def model(self, folder: Path, text: str | None) -> None:
        folder.mkdir()
        (folder / "serving.properties").write_text(PROPERTIES)
        invalid = "" if text else BROKEN
        (folder / "model.py").write_text(HANDLER.format(broken=invalid, answer=text))
        self.homes.append(folder.with_name(f"{folder.name}-home"))

    def close(self) -> None:
        for home in self.homes:
            self.servers.stop(home, grace=1)


def embedded() -> ServerBench:
    clock = SystemClock()
    return RealServerBench(lambda it: Embedded(it, clock, dict(os.environ)), counts=True)


def djl_serving(root: Path) -> ServerBench:
    environ = dict(os.environ) if "DJL_SERVING_HOME" in os.environ else install(root / "djl")
    return RealServerBench(
        lambda it: ProgramServer(it, DjlServing(environ, lambda: find_installation(environ)))
    )


def program() -> ServerBench:
    """The stand-in's HTTP server without its configuration: a program that knows a folder and an address."""

    def command(launch: Launch, port: int) -> ProgramCommand:
        address, folder = f"http://{launch.host}:{port}", str(launch.model_folder)
        argv = (sys.executable, "-c", SERVE, str(PROGRAM.parent), address, folder)
        return ProgramCommand(argv=argv, environment=dict(os.environ))

    kind = HttpProgram(runtime="program", title="the program", command=command)
    return RealServerBench(lambda it: ProgramServer(it, kind))


def container() -> ServerBench:
    environ = podman_environ()
    return RealServerBench(lambda it: ContainerServer(it, environ, lambda: find_engine(environ)))


@pytest.fixture(
    params=["fake", pytest.param("embedded", marks=pytest.mark.worker), "djl-serving", "program", "container"]
)
def server_bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerBench]:
    match request.param:
        case "fake":
            bench: ServerBench = FakeServerBench()
        case "embedded":
            bench = embedded()
        case "djl-serving":
            bench = djl_serving(tmp_path)
        case "program":
            bench = program()
        case _:
            bench = container()
    yield bench
    bench.close()


@dataclass
class ServerCase:
    """Starts servers on the bench and waits for them."""

    setup: ServerBench
    root: Path

    def start(self, name: str, *, text: str | None = "hello", port: int = 0) -> Path:
        self.setup.model(self.root / name, text)
        home = self.root / f"{name}-home"
        launch = Launch(
            model_folder=self.root / name,
            home=home,
            python=Path(worker_python()),
            engine=engine_dir() if isinstance(self.setup.servers, Embedded) else self.root,
            host="127.0.0.1",
            port=port,
            environment={},
            # Container names are unique on the whole machine.
            labels={"deployment": f"tiny-{short(digest(str(self.root)), 8)}"},
            image=image() if isinstance(self.setup.servers, ContainerServer) else "",
        )
        observed = self.setup.servers.start(launch)
        assert observed.phase in ("starting", "loading", "failed")
        assert observed.server == home.name
        return home

    def settled(self, home: Path, *phases: str) -> ObservedServer:
        """The status once the phase is none of `phases`; of a server that failed, once its process has ended."""
        clock, servers = self.setup.clock, self.setup.servers
        deadline = clock.monotonic() + TIMEOUT
        while (observed := servers.status(home)).phase in (phases or ("starting", "loading")) or (
            observed.phase == "failed" and observed.pid is not None
        ):
            assert clock.monotonic() < deadline, observed
            clock.sleep(0.05)
        return observed

    def ready(self, name: str, *, text: str = "hello", port: int = 0) -> tuple[Path, int]:
        home = self.start(name, text=text, port=port)
        observed = self.settled(home)
        assert observed.phase == "ready", self.setup.servers.log(home).read_text()
        assert observed.port is not None
        return home, observed.port


@pytest.fixture
def server_case(server_bench: ServerBench, tmp_path: Path) -> ServerCase:
    return ServerCase(server_bench, tmp_path)


def invoke(port: int, text: str = "{}") -> str:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        link.request("POST", "/invocations", text, {"Content-Type": "application/json"})
        return link.getresponse().read().decode()
    finally:
        link.close()


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT).close()
    except ConnectionRefusedError:
        return True
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_server_refuses_requests_until_the_model_is_loaded(server_case: ServerCase) -> None:
    port = free_port()
    home = server_case.start("a", port=port)
    assert refuses(port)
    observed = server_case.settled(home)
    assert (observed.phase, observed.port) == ("ready", port)
    assert observed.pid
    assert invoke(port) == "hello"
    assert server_case.setup.servers.status(home).served == (1 if server_case.setup.counts else 0)
    assert server_case.setup.servers.log(home).stat().st_size
    assert server_case.setup.servers.failure(home) == ""


def test_server_chooses_a_free_port_when_none_is_given(server_case: ServerCase) -> None:
    _, port = server_case.ready("a")
    assert port != 0
    assert invoke(port) == "hello"


def test_server_outlives_the_client_that_started_it(server_case: ServerCase) -> None:
    home, port = server_case.ready("a")
    observed = server_case.setup.again().status(home)
    assert (observed.phase, observed.port) == ("ready", port)


def test_model_load_error_is_a_failure_with_its_reason(server_case: ServerCase) -> None:
    port = free_port()
    home = server_case.start("a", text=None, port=port)
    observed = server_case.settled(home)
    assert (observed.phase, observed.pid) == ("failed", None)
    assert "RuntimeError: no such model" in server_case.setup.servers.failure(home)
    assert refuses(port)
    server_case.setup.servers.stop(home, grace=1)
    assert server_case.setup.servers.status(home).phase == "gone"
    assert server_case.setup.servers.failure(home) == ""


def test_port_in_use_is_a_failure_with_its_reason(server_case: ServerCase) -> None:
    _, port = server_case.ready("a")
    home = server_case.start("b", port=port)
    assert server_case.settled(home).phase == "failed"
    assert f"127.0.0.1:{port}" in server_case.setup.servers.failure(home)
    assert invoke(port) == "hello"


# The others cannot pass on their listening socket: the target starts them again at the address instead.
@pytest.mark.parametrize(
    "server_bench", ["fake", pytest.param("embedded", marks=pytest.mark.worker)], indirect=True
)
def test_takeover_switches_the_address_and_ends_the_old_server(server_case: ServerCase) -> None:
    old, address = server_case.ready("a", text="old")
    new, own = server_case.ready("b", text="new")
    server_case.setup.servers.take_over(new, old, host="127.0.0.1", port=address)
    assert invoke(address) == "new"
    assert server_case.setup.servers.status(new).port == address
    assert refuses(own)
    assert server_case.settled(old, "ready", "draining").phase == "gone"
    assert invoke(address) == "new"


@pytest.mark.worker
@pytest.mark.parametrize("server_bench", ["embedded"], indirect=True)
def test_models_cannot_be_registered_over_the_serving_port(server_case: ServerCase) -> None:
    _, port = server_case.ready("a")
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    link.request("POST", f"/models?url=file:{server_case.root}/a/&model_name=b")
    assert link.getresponse().status == 403
    link.close()
    assert invoke(port) == "hello"


def test_takeover_from_a_missing_server_changes_nothing(server_case: ServerCase) -> None:
    home, port = server_case.ready("a")
    with pytest.raises(DeployFailed, match="cannot take over"):
        server_case.setup.servers.take_over(home, server_case.root / "nobody-home", host="127.0.0.1", port=1)
    assert invoke(port) == "hello"


def test_stopped_server_is_gone_and_stop_is_idempotent(server_case: ServerCase) -> None:
    home, port = server_case.ready("a")
    for _ in range(2):
        server_case.setup.servers.stop(home, grace=5)
        observed = server_case.setup.servers.status(home)
        assert (observed.phase, observed.pid, observed.port) == ("gone", None, None)
        assert refuses(port)


def test_server_can_be_stopped_while_it_loads(server_case: ServerCase) -> None:
    home = server_case.start("a", port=(port := free_port()))
    server_case.setup.servers.stop(home, grace=5)
    assert server_case.setup.servers.status(home).phase == "gone"
    assert refuses(port)


def test_folder_without_a_server_has_status_gone(server_case: ServerCase) -> None:
    server_case.setup.servers.stop(server_case.root / "never", grace=1)
    assert server_case.setup.servers.status(server_case.root / "never").phase == "gone"
    assert server_case.setup.servers.failure(server_case.root / "never") == ""


def test_server_can_be_started_again_after_a_stop(server_case: ServerCase) -> None:
    home, port = server_case.ready("a")
    server_case.setup.servers.stop(home, grace=5)
    if isinstance(server_case.setup, RealServerBench):
        shutil.rmtree(server_case.root / "a")
    again, port = server_case.ready("a", text="again", port=port)
    assert again == home
    assert invoke(port) == "again"
