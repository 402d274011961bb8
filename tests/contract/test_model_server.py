"""The port ModelServer: what a target may count on, from our fake and from every runtime.

`djl-serving` is a stand-in unless DJL_SERVING_HOME names a real one; `container` is podman, its image that stand-in.
"""

from __future__ import annotations

import http.client
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from lmi_deploy.domain.naming import digest, short
from lmi_deploy.domain.observed import SeenServer
from lmi_deploy.errors import DeployFailed
from lmi_deploy.host.background_processes import LocalProcesses
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.model_server import Launch, ModelServer
from lmi_deploy.ports.processes import Processes
from lmi_deploy.runtimes.container.engine_cli import find_engine
from lmi_deploy.runtimes.container.runtime import Container
from lmi_deploy.runtimes.djl_serving.installation import find_installation
from lmi_deploy.runtimes.djl_serving.runtime import DjlServing
from lmi_deploy.runtimes.embedded import Embedded
from tests.support.container_image import image, podman_environ
from tests.support.djl_engine import engine_dir
from tests.support.djl_stand_in import install
from tests.support.fake_servers import Behaviour, FakeModelServers
from tests.support.fakes import FakeClock
from tests.support.running_server import PATIENCE, worker_python

PROPERTIES = "engine=Python\noption.rolling_batch=disable\nminWorkers=1\nmaxWorkers=1\n"
HANDLER = """
import time
from djl_python import Output
time.sleep(0.3)
{broken}

def handle(inputs):
    return None if inputs.is_empty() else Output().add("{answer}")
"""
BROKEN = 'raise RuntimeError("no such model")'


class Bench(Protocol):
    """One implementation, and how a model comes to it."""

    clock: Clock
    counts: bool
    """Whether the server tells how many requests it answered."""

    @property
    def servers(self) -> ModelServer: ...

    def again(self) -> ModelServer:
        """As another process would open it."""

    def model(self, folder: Path, answer: str | None) -> None:
        """A model that answers with that text, or fails to load."""

    def close(self) -> None: ...


@dataclass
class FakeBench:
    counts = True
    servers: FakeModelServers = field(default_factory=FakeModelServers)
    clock: Clock = field(default_factory=FakeClock)

    def again(self) -> ModelServer:
        return self.servers

    def model(self, folder: Path, answer: str | None) -> None:
        text = (answer or "").encode()
        behaviour = Behaviour(
            end="ready" if answer else "failed", answer=lambda body: (200, "text/plain", text)
        )
        self.servers.next.append(behaviour)

    def close(self) -> None:
        self.servers.close()


@dataclass
class RealBench:
    """Real processes; `make` opens the runtime."""

    make: Callable[[Processes], ModelServer]
    counts: bool = False
    clock: Clock = field(default_factory=SystemClock)
    homes: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.servers: ModelServer = self.again()

    def again(self) -> ModelServer:
        return self.make(LocalProcesses(self.clock))

    def model(self, folder: Path, answer: str | None) -> None:
        folder.mkdir()
        (folder / "serving.properties").write_text(PROPERTIES)
        broken = "" if answer else BROKEN
        (folder / "model.py").write_text(HANDLER.format(broken=broken, answer=answer))
        self.homes.append(folder.with_name(f"{folder.name}-home"))

    def close(self) -> None:
        for home in self.homes:
            self.servers.stop(home, grace=1)


def embedded() -> Bench:
    clock = SystemClock()
    return RealBench(lambda it: Embedded(it, clock, dict(os.environ)), counts=True)


def djl_serving(root: Path) -> Bench:
    environ = dict(os.environ) if "DJL_SERVING_HOME" in os.environ else install(root / "djl")
    return RealBench(lambda it: DjlServing(it, environ, lambda: find_installation(environ)))


def container() -> Bench:
    environ = podman_environ()
    return RealBench(lambda it: Container(it, environ, lambda: find_engine(environ)))


@pytest.fixture(
    params=["fake", pytest.param("embedded", marks=pytest.mark.worker), "djl-serving", "container"]
)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    match request.param:
        case "fake":
            bench: Bench = FakeBench()
        case "embedded":
            bench = embedded()
        case "djl-serving":
            bench = djl_serving(tmp_path)
        case _:
            bench = container()
    yield bench
    bench.close()


@dataclass
class Shop:
    """Starts servers on the bench and waits for them."""

    bench: Bench
    root: Path

    def start(self, name: str, *, answer: str | None = "hello", port: int = 0) -> Path:
        self.bench.model(self.root / name, answer)
        home = self.root / f"{name}-home"
        launch = Launch(
            model_folder=self.root / name,
            home=home,
            python=Path(worker_python()),
            engine=engine_dir() if isinstance(self.bench.servers, Embedded) else self.root,
            host="127.0.0.1",
            port=port,
            environment={},
            # Containers have one name space on the whole machine.
            labels={"deployment": f"tiny-{short(digest(str(self.root)), 8)}"},
            image=image() if isinstance(self.bench.servers, Container) else "",
        )
        seen = self.bench.servers.start(launch)
        assert seen.phase in ("starting", "loading", "failed")
        assert seen.server == home.name
        return home

    def settled(self, home: Path, *phases: str) -> SeenServer:
        """What it is once it is none of `phases` any more."""
        clock, servers = self.bench.clock, self.bench.servers
        deadline = clock.monotonic() + PATIENCE
        while (seen := servers.look(home)).phase in (phases or ("starting", "loading")):
            assert clock.monotonic() < deadline, seen
            clock.sleep(0.05)
        return seen

    def ready(self, name: str, *, answer: str = "hello", port: int = 0) -> tuple[Path, int]:
        home = self.start(name, answer=answer, port=port)
        seen = self.settled(home)
        assert seen.phase == "ready", self.bench.servers.log(home).read_text()
        assert seen.port is not None
        return home, seen.port


@pytest.fixture
def shop(bench: Bench, tmp_path: Path) -> Shop:
    return Shop(bench, tmp_path)


def ask(port: int, text: str = "{}") -> str:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        link.request("POST", "/invocations", text, {"Content-Type": "application/json"})
        return link.getresponse().read().decode()
    finally:
        link.close()


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_it_refuses_while_it_loads_and_answers_when_it_is_ready(shop: Shop) -> None:
    port = free_port()
    home = shop.start("a", port=port)
    assert refuses(port)
    seen = shop.settled(home)
    assert (seen.phase, seen.port) == ("ready", port)
    assert seen.pid
    assert ask(port) == "hello"
    assert shop.bench.servers.look(home).served == (1 if shop.bench.counts else 0)
    assert shop.bench.servers.log(home).stat().st_size
    assert shop.bench.servers.failure(home) == ""


def test_it_finds_a_port_when_none_is_asked_for(shop: Shop) -> None:
    _, port = shop.ready("a")
    assert port != 0
    assert ask(port) == "hello"


def test_it_outlives_whoever_started_it(shop: Shop) -> None:
    home, port = shop.ready("a")
    seen = shop.bench.again().look(home)
    assert (seen.phase, seen.port) == ("ready", port)


def test_a_model_that_does_not_load_is_a_failure_with_its_reason(shop: Shop) -> None:
    port = free_port()
    home = shop.start("a", answer=None, port=port)
    seen = shop.settled(home)
    assert (seen.phase, seen.pid) == ("failed", None)
    assert "RuntimeError: no such model" in shop.bench.servers.failure(home)
    assert refuses(port)
    shop.bench.servers.stop(home, grace=1)
    assert shop.bench.servers.look(home).phase == "gone"
    assert shop.bench.servers.failure(home) == ""


def test_a_port_that_is_taken_is_a_failure_with_its_reason(shop: Shop) -> None:
    _, port = shop.ready("a")
    home = shop.start("b", port=port)
    assert shop.settled(home).phase == "failed"
    assert f"127.0.0.1:{port}" in shop.bench.servers.failure(home)
    assert ask(port) == "hello"


# The two others cannot hand their listening socket over: the target starts them again at the address instead.
@pytest.mark.parametrize("bench", ["fake", pytest.param("embedded", marks=pytest.mark.worker)], indirect=True)
def test_the_address_is_taken_over_and_the_previous_one_ends(shop: Shop) -> None:
    old, address = shop.ready("a", answer="old")
    new, own = shop.ready("b", answer="new")
    shop.bench.servers.take_over(new, old, host="127.0.0.1", port=address)
    assert ask(address) == "new"
    assert shop.bench.servers.look(new).port == address
    assert refuses(own)
    assert shop.settled(old, "ready", "draining").phase == "gone"
    assert ask(address) == "new"


@pytest.mark.worker
@pytest.mark.parametrize("bench", ["embedded"], indirect=True)
def test_clients_of_a_deployment_register_no_models(shop: Shop) -> None:
    _, port = shop.ready("a")
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    link.request("POST", f"/models?url=file:{shop.root}/a/&model_name=b")
    assert link.getresponse().status == 404
    link.close()
    assert ask(port) == "hello"


def test_nothing_changes_where_the_address_cannot_be_taken(shop: Shop) -> None:
    home, port = shop.ready("a")
    with pytest.raises(DeployFailed, match="could not take"):
        shop.bench.servers.take_over(home, shop.root / "nobody-home", host="127.0.0.1", port=1)
    assert ask(port) == "hello"


def test_a_stopped_server_is_gone_and_may_be_stopped_again(shop: Shop) -> None:
    home, port = shop.ready("a")
    for _ in range(2):
        shop.bench.servers.stop(home, grace=5)
        seen = shop.bench.servers.look(home)
        assert (seen.phase, seen.pid, seen.port) == ("gone", None, None)
        assert refuses(port)


def test_a_server_may_be_stopped_while_it_loads(shop: Shop) -> None:
    home = shop.start("a", port=(port := free_port()))
    shop.bench.servers.stop(home, grace=5)
    assert shop.bench.servers.look(home).phase == "gone"
    assert refuses(port)


def test_a_home_where_nothing_was_started_is_gone(shop: Shop) -> None:
    shop.bench.servers.stop(shop.root / "never", grace=1)
    assert shop.bench.servers.look(shop.root / "never").phase == "gone"
    assert shop.bench.servers.failure(shop.root / "never") == ""


def test_it_may_be_started_again_after_it_was_stopped(shop: Shop) -> None:
    home, port = shop.ready("a")
    shop.bench.servers.stop(home, grace=5)
    if isinstance(shop.bench, RealBench):
        shutil.rmtree(shop.root / "a")
    again, port = shop.ready("a", answer="again", port=port)
    assert again == home
    assert ask(port) == "again"
