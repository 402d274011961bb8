"""The whole application on fakes: real state, journal, lock and target on disk; `lmi` run in process."""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.context import DependenciesFactory
from lmi_deploy.cli.error_boundary import run
from lmi_deploy.composition.local import port_of
from lmi_deploy.composition.targets import recipe_issues
from lmi_deploy.domain.gathered_facts import AvailableRuntimes, Machine
from lmi_deploy.domain.observed_state import LocalObserved
from lmi_deploy.domain.price_table import RegionPrices
from lmi_deploy.domain.recipe_weights_keys import is_folder
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import CloudError, NoCredentials
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.journal import Journal
from lmi_deploy.runtimes.compiled_models import CompiledModelFolders
from lmi_deploy.sources.local_folder import LocalModel, LocalModelFiles
from lmi_deploy.state.price_files import PriceFiles
from lmi_deploy.state.state_dir import FileJournal, FileLock, StateDir
from lmi_deploy.targets.endpoint_adopter import EndpointAdopter
from lmi_deploy.targets.local.compiler import LocalCompiler
from lmi_deploy.targets.local.target import LocalTarget
from lmi_deploy.targets.sagemaker.load_job.machines import LoadMachinesFactory
from lmi_deploy.targets.target import AnyTarget
from lmi_deploy.weights.bucket_weights import BucketWeights
from lmi_deploy.weights.transfer_settings import TransferSettings
from lmi_deploy.workflows.dependencies import Dependencies
from tests.support.fake_images import FakeImageBuilder
from tests.support.fake_servers import FakeModelServers
from tests.support.fake_store import FakeStore
from tests.support.fakes import FakeClock, FakeEnvironments, FakeHub, model_files
from tests.support.json_output import require_described

MODEL = "org/tiny"
RECIPE = f"""\
name: tiny
model_id: {MODEL}
engine: accelerate
endpoint: {{target: local}}
"""
REF = DeploymentRef(name="tiny", target="local")


@dataclass(frozen=True)
class Ran:
    """The exit code of one command line, and its output per stream."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """stdout of `--json`."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        last = self.lines[-1]
        assert last["event"] == "result"
        return last


def folder_in_memory() -> TemporaryDirectory[str]:
    """A new folder, on a memory file system where there is one: a record is synced to disk twice per action."""
    memory = Path("/dev/shm")
    return TemporaryDirectory(dir=memory if memory.is_dir() else None)


def no_cloud(region: str) -> Cloud:
    """These tests are about one machine."""
    raise NoCredentials("no cloud here", hint="none is needed")


class NoPriceList:
    """No network."""

    def listed(self, region: str, *, seconds: float | None = None) -> RegionPrices:
        raise CloudError(f"{region}: no network here", hint="none is needed")


def no_adopter() -> EndpointAdopter:
    raise NoCredentials("no cloud here", hint="none is needed")


@dataclass
class LocalApp:
    """`deps` builds everything again from disk, as a new process would; the external state (servers, Hub,
    cache) stays."""

    root: Path
    clock: FakeClock = field(default_factory=FakeClock)
    servers: FakeModelServers = field(default_factory=FakeModelServers)
    spoken_for: set[int] = field(default_factory=set)
    chosen_ports: dict[str, int] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    """The deployments whose servers were started, each time before its start."""
    journal: Callable[[Journal], Journal] = lambda journal: journal
    target: Callable[[AnyTarget], AnyTarget] = lambda target: target
    machine: Machine = field(default_factory=lambda: Machine(memory=8_000_000_000, cores=2))
    advice: str = ""
    """The upload rule advice of the bucket."""
    refreshes_prices: bool = False
    """Whether `lmi` reads the price list by itself."""

    def __post_init__(self) -> None:
        self.hub = FakeHub(self.root, {MODEL: model_files()})
        self.store = FakeStore()
        self.environments = FakeEnvironments(self.root / "environments")
        self.builder = FakeImageBuilder()

    @property
    def state(self) -> StateDir:
        return StateDir(self.root / "state")

    @property
    def price_cache(self) -> PriceFiles:
        return PriceFiles(self.root / "cache" / "prices", refreshed=self.refreshes_prices)

    def deps(self) -> Dependencies:
        state = self.state
        servers = {"embedded": self.servers}
        compiled_models = CompiledModelFolders(self.root / "cache" / "compiled", os.environ)
        local = LocalTarget(
            state=state,
            servers=servers,
            environments=self.environments,
            builder=self.builder,
            compiled_models=compiled_models,
            clock=self.clock,
            machine=lambda: self.machine,
            port=lambda name: port_of(name, state, self.servers.status, self._free_port),
            release_port=self.released.append,
            runtimes=lambda image: AvailableRuntimes(names=("embedded",)),
        )
        return Dependencies(
            target_issues=recipe_issues,
            hub=lambda model_id: LocalModel() if is_folder(model_id) else self.hub,
            files=LocalModelFiles,
            weights=lambda wish, memory_mb: BucketWeights(
                store=self.store,
                owner="111122223333",
                clock=self.clock,
                settings=TransferSettings(),
                where=f"s3://{self.store.bucket}",
                advise=lambda: self.advice,
            ),
            targets={"local": self.target(local)},
            servers=servers,
            environments=self.environments,
            images=self.builder,
            journal=lambda ref: self.journal(FileJournal(folder=state, ref=ref)),
            cloud=no_cloud,
            for_profile=lambda profile: self.deps(),
            price_cache=self.price_cache,
            price_list=NoPriceList(),
            lock=lambda ref: FileLock(state.root, self.clock, command="lmi test"),
            clock=self.clock,
            adopter=no_adopter,
            compilers={"local": LocalCompiler(target=local)},
            exporters={},
            compiled_models=compiled_models,
            trial=local,
            machine=local.machine,
            load_machines=LoadMachinesFactory(
                cloud=no_cloud, store=lambda ref: self.store, clock=self.clock, job_files=dict
            ),
            runtimes=local.runtimes,
        )

    def observed(self, ref: DeploymentRef = REF) -> LocalObserved:
        observed = self.deps().targets["local"].observe(ref)
        assert isinstance(observed, LocalObserved)
        return observed

    def lmi(self, *argv: str, stdin: bytes = b"", terminal: bool = False) -> Ran:
        """One command line, its streams separate; with `terminal`, stdin and stderr are one, and stdout a
        pipe."""
        kind = Terminal if terminal else io.TextIOWrapper
        out, err = _stream(io.TextIOWrapper), _stream(kind)
        with kind(_readable(stdin), encoding="utf-8") as given, redirect_stdout(out), redirect_stderr(err):
            with _stdin(given), _own_environment():
                code = run(lmi, argv, given=DependenciesFactory(self.deps))
        ran = Ran(code, _text(out), _text(err))
        require_described(argv, ran.out)
        return ran

    def other_port(self) -> int:
        """A free port that no deployment gets by default."""
        port = self.servers.free_port(frozenset(self.spoken_for))
        self.spoken_for.add(port)
        return port

    def _free_port(self, name: str, used: frozenset[int]) -> int:
        """The same one for a name that has one, as the reservations of a real process."""
        if (own := self.chosen_ports.get(name, 0)) in used or not own:
            taken = used | self.spoken_for | {*self.chosen_ports.values()} - {own}
            self.chosen_ports[name] = self.servers.free_port(taken)
        return self.chosen_ports[name]

    def artifacts_left(self, name: str = "tiny") -> list[str]:
        """Every path in the state folder that belongs to the deployment."""
        return sorted(
            str(path.relative_to(self.root))
            for path in (self.root / "state").rglob("*")
            if name in path.relative_to(self.root).as_posix()
        )


class Terminal(io.TextIOWrapper):
    """A stream that reports to be a terminal."""

    def isatty(self) -> bool:
        return True


def _readable(content: bytes) -> Any:
    """A file of its own, as a shell's redirection; nothing is as a closed stdin."""
    if not content:
        return io.BytesIO()
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(content)
    file.seek(0)
    return file


def _stream(kind: type[io.TextIOWrapper]) -> io.TextIOWrapper:
    return kind(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode()


@contextmanager
def _own_environment() -> Iterator[None]:
    """What a command sets for itself (`--debug`) ends with it, as with a process."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _stdin(stream: io.TextIOWrapper) -> Iterator[None]:
    before, sys.stdin = sys.stdin, stream
    try:
        yield
    finally:
        sys.stdin = before


def on_terminal(app: LocalApp, *argv: str) -> list[str]:
    """stdout is a terminal, too."""
    out = Terminal(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(out):
        assert run(lmi, argv, given=DependenciesFactory(app.deps)) == 0
    return _text(out).splitlines()
