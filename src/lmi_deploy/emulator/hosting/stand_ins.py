"""Stand-ins for inference engines that do not run on this machine: the folders of `stand_ins/`.

Each folder has a `stand_in.toml`: `summary`, the `images` (patterns of repository:tag) and, for a DJLServing, the
`entry_points` that need it, then either `packages` (import names in the folder, first on the worker's path; a package
that the worker's Python has itself is used instead) or `server` (a program that takes the place of the image's
server: `--model-dir DIR --port PORT`, GET /ping, POST /invocations on 127.0.0.1).
"""

from __future__ import annotations

import os
import socket
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final, Protocol

from lmi_deploy.domain.djl_serving import SERVING_PROPERTIES
from lmi_deploy.domain.java_properties import parse_properties
from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.ports.processes import Process, Processes

DECLARATION: Final = "stand_in.toml"
SAYS: Final = "lmi emulator: stand-in for"
"""The first words of the log line in which a container names its stand-in."""
_ENTRY_POINT: Final = ("option.entryPoint", "OPTION_ENTRYPOINT")
_HOST: Final = "127.0.0.1"


class ContainerServers(Protocol):
    """The part of the port ModelServer that a container needs."""

    def start(self, launch: Launch) -> ObservedServer: ...

    def status(self, home: Path) -> ObservedServer: ...

    def stop(self, home: Path, *, grace: float) -> None: ...

    def log(self, home: Path) -> Path: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """One folder of `stand_ins/`, as its declaration describes it."""

    folder: Path
    summary: str
    images: tuple[str, ...]
    entry_points: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    server: str = ""

    def replaces(self, image: str, entry_point: str) -> bool:
        """Whether a container of this image (`repository:tag`) with this handler needs it."""
        named = any(fnmatch(image.rpartition("/")[2], pattern) for pattern in self.images)
        return named and (
            not self.entry_points or any(fnmatch(entry_point, each) for each in self.entry_points)
        )


def read_stand_ins(root: Path) -> tuple[StandIn, ...]:
    """All of them. TypeError for a declaration with other keys, which only a developer sees."""
    return tuple(_read(path) for path in sorted(root.glob(f"*/{DECLARATION}")))


def _read(path: Path) -> StandIn:
    fields: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    typed: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
    }
    return StandIn(folder=path.parent, **typed)


@dataclass(slots=True)
class ServersWithStandIns:
    """`servers` for a container, with a stand-in's packages on its path; or a stand-in's own server program."""

    servers: ContainerServers
    stand_ins: tuple[StandIn, ...]
    imports: Callable[[Path, str], bool]
    """Whether an interpreter has a package."""
    processes: Processes
    environment: Mapping[str, str]
    """That of every program."""
    _programs: dict[Path, tuple[Process, int]] = field(default_factory=dict)

    def start(self, launch: Launch) -> ObservedServer:
        found = self._chosen(launch)
        if found is None:
            return self.servers.start(launch)
        launch.home.mkdir(parents=True, exist_ok=True)
        with self.log(launch.home).open("a", encoding="utf-8") as log:
            log.write(f"{SAYS} {found.summary}\n")
        if found.server:
            return self._start_program(found, launch)
        path = [str(found.folder), *filter(None, [launch.environment.get("PYTHONPATH")])]
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
        entry_point = next(_entry_points(launch), "")
        for one in self.stand_ins:
            if one.replaces(launch.image, entry_point):
                real = one.packages and all(self.imports(launch.python, name) for name in one.packages)
                return None if real else one
        return None

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


def _entry_points(launch: Launch) -> Iterator[str]:
    """The handler by serving.properties, else by the container's variables."""
    try:
        properties = parse_properties((launch.model_folder / SERVING_PROPERTIES).read_bytes())
    except (OSError, ValueError):
        properties = {}  # the server reports an invalid file
    for settings, key in ((properties, _ENTRY_POINT[0]), (launch.environment, _ENTRY_POINT[1])):
        if settings.get(key):
            yield settings[key]


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind((_HOST, 0))
        port: int = listening.getsockname()[1]
        return port
