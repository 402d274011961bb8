"""Containers whose engine does not run on this machine: started with a stand-in (`catalog/stand_ins.py`)."""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from lmi_deploy.catalog.stand_ins import STAND_IN_NOTICE, StandIn, stand_in_for
from lmi_deploy.domain.djl_serving import SERVING_PROPERTIES
from lmi_deploy.domain.java_properties import parse_properties, write_properties
from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.ports.processes import Process, Processes

_ENTRY_POINT: Final = ("option.entryPoint", "OPTION_ENTRYPOINT")
_HOST: Final = "127.0.0.1"


class ContainerServers(Protocol):
    """The part of the port ModelServer that a container needs."""

    def start(self, launch: Launch) -> ObservedServer: ...

    def status(self, home: Path) -> ObservedServer: ...

    def stop(self, home: Path, *, grace: float) -> None: ...

    def log(self, home: Path) -> Path: ...


class ServersByHome(ABC):
    """Several ContainerServers, of which each started the containers of its own homes."""

    __slots__ = ()

    @abstractmethod
    def _of(self, home: Path) -> ContainerServers:
        """The one that started the container of this home."""

    def status(self, home: Path) -> ObservedServer:
        return self._of(home).status(home)

    def stop(self, home: Path, *, grace: float) -> None:
        self._of(home).stop(home, grace=grace)

    def log(self, home: Path) -> Path:
        return self._of(home).log(home)


@dataclass(slots=True)
class ServersWithStandIns:
    """`servers` for a container, with a stand-in's packages on its path; or a stand-in's own server program."""

    servers: ContainerServers
    stand_ins: tuple[StandIn, ...]
    imports: Callable[[Path, str], bool]
    """Whether an interpreter has a package."""
    install: Callable[[Path, tuple[str, ...]], Path]
    """A folder with these packages, for this interpreter."""
    processes: Processes
    environment: Mapping[str, str]
    """That of every program."""
    _programs: dict[Path, tuple[Process, int]] = field(default_factory=dict)

    def start(self, launch: Launch) -> ObservedServer:
        found = self._chosen(launch)
        if found is None:
            return self.servers.start(launch)
        if self._is_installed(found, launch):
            _replace_lines(found, launch)
            return self.servers.start(launch)
        launch.home.mkdir(parents=True, exist_ok=True)
        with self.log(launch.home).open("a", encoding="utf-8") as log:
            log.write(f"{STAND_IN_NOTICE} {found.summary}\n")
        if found.server:
            return self._start_program(found, launch)
        _replace_lines(found, launch)
        path = [str(found.folder), *self._missing(found, launch.python)]
        path += filter(None, [launch.environment.get("PYTHONPATH")])
        variables = {**launch.environment, "PYTHONPATH": os.pathsep.join(path)}
        return self.servers.start(replace(launch, environment=variables))

    def status(self, home: Path) -> ObservedServer:
        if home not in self._programs:
            return self.servers.status(home)
        process, port = self._programs[home]
        if not self.processes.alive(process):
            return ObservedServer(server=home.name, phase="failed", pid=None, port=None)
        return ObservedServer(server=home.name, phase="loading", pid=process.pid, port=port)

    def stop(self, home: Path, *, grace: float) -> None:
        if home not in self._programs:
            self.servers.stop(home, grace=grace)
            return
        process, _ = self._programs.pop(home)
        self.processes.end(process, grace=min(grace, 5.0))

    def log(self, home: Path) -> Path:
        return self.servers.log(home)

    def _chosen(self, launch: Launch) -> StandIn | None:
        entry_point, properties = next(_entry_points(launch), ""), _properties(launch)
        return stand_in_for(self.stand_ins, launch.image, entry_point, properties)

    def _is_installed(self, stand_in: StandIn, launch: Launch) -> bool:
        """Whether the worker's Python has the engine, and the Python engine of DJL the handler."""
        entry_point = next(_entry_points(launch), "")
        if stand_in.instead_of(_ENTRY_POINT[0], entry_point)[1] != entry_point or not stand_in.packages:
            return False
        return all(self.imports(launch.python, name) for name in stand_in.packages)

    def _missing(self, stand_in: StandIn, python: Path) -> list[str]:
        """The folders of what the interpreter lacks for it."""
        lacks = tuple(one for name, one in stand_in.requires.items() if not self.imports(python, name))
        instead = [one for name, one in stand_in.instead.items() if not self.imports(python, name)]
        folders = [self.install(python, lacks)] if lacks else []
        folders += [stand_in.folder / one for one in instead]
        return [str(folder) for folder in folders]

    def _start_program(self, stand_in: StandIn, launch: Launch) -> ObservedServer:
        port = _free_port()
        argv = [str(launch.python), str(stand_in.folder / stand_in.server)]
        argv += ["--model-dir", str(launch.model_folder), "--port", str(port)]
        process = self.processes.start(
            argv,
            log=self.log(launch.home),
            cwd=launch.home,
            environment={**self.environment, **launch.environment},
        )
        self._programs[launch.home] = (process, port)
        return self.status(launch.home)


def _replace_lines(stand_in: StandIn, launch: Launch) -> None:
    """In the container's own copy of serving.properties."""
    if stand_in.replaced:
        pairs = [stand_in.instead_of(key, value) for key, value in _properties(launch).items()]
        (launch.model_folder / SERVING_PROPERTIES).write_bytes(write_properties(pairs))


def _properties(launch: Launch) -> dict[str, str]:
    """Empty without serving.properties, or if the file is invalid, which the server reports."""
    try:
        return parse_properties((launch.model_folder / SERVING_PROPERTIES).read_bytes())
    except (OSError, ValueError):
        return {}


def _entry_points(launch: Launch) -> Iterator[str]:
    """The handler by serving.properties, else by the container's variables."""
    for settings, key in ((_properties(launch), _ENTRY_POINT[0]), (launch.environment, _ENTRY_POINT[1])):
        if settings.get(key):
            yield settings[key]


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind((_HOST, 0))
        port: int = listening.getsockname()[1]
        return port
