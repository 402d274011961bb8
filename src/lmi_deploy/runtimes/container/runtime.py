"""Runtime `container`: the recipe's own image, with SageMaker's file layout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from lmi_deploy.domain.deployment_artifact import MARKER
from lmi_deploy.domain.java_properties import parse_properties
from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.ports.processes import Process, Processes, Report
from lmi_deploy.runtimes.container.container_cli import ContainerCli, ContainerEngine, ContainerState
from lmi_deploy.runtimes.container.container_command import ContainerCommand, command, container_name
from lmi_deploy.runtimes.server_dirs import (
    REQUESTED_STOPS,
    delete_notes,
    failure_at_start,
    failure_of,
    not_running,
    noted_process,
    port_at_start,
    read_note,
    write_note,
    write_process,
)
from lmi_deploy.runtimes.server_health import health, health_by_status

RUNTIME = "container"
_NOTES = ("container.json", "process.json", "container.id")
_ENDED = ("exited", "stopped", "dead")


class ContainerServer:
    """A `ModelServer`. The CLI's process runs beside each server, and writes the container's output to the log."""

    def __init__(
        self,
        processes: Processes,
        environment: Mapping[str, str],
        find: Callable[[], ContainerEngine | str],
    ) -> None:
        """`environment` is the client's own; a container gets none of it."""
        self._processes = processes
        self._environment = environment
        self._find = find

    def start(self, launch: Launch) -> ObservedServer:
        engine = self._engine()
        launch.home.mkdir(parents=True, exist_ok=True)
        name = container_name(launch)
        self._clear(launch.home, self._talk(engine), name)
        port = port_at_start(launch)
        if port is None:
            return self.status(launch.home)
        # Written first: from here on the container is found again, whenever we are killed.
        is_djl = not (launch.model_folder / MARKER).is_file()
        place = {"name": name, "host": launch.host, "port": port, "djl": is_djl}
        write_note(launch.home / "container.json", {**place, "engine": asdict(engine)})
        command = self._command(launch, engine, port)
        process = self._processes.start(
            command.argv,
            log=self.log(launch.home),
            cwd=launch.home,
            environment={**self._environment, **command.environment},
        )
        write_process(launch.home, process)
        return self.status(launch.home)

    def status(self, home: Path) -> ObservedServer:
        note = read_note(home / "container.json")
        found = self._found(home, note)
        if found is not None and found.status not in _ENDED:
            return self._running(home, note, found)
        if found is None and note and self._client(home) is not None:
            return ObservedServer(server=home.name, phase="starting", pid=None, port=None, runtime=RUNTIME)
        return not_running(home, self._failure_reason(home, note, found), runtime=RUNTIME)

    def take_over(self, home: Path, previous: Path, *, host: str, port: int) -> None:
        raise DeployFailed(
            f"{home.name} cannot take over {host}:{port} from {previous.name}: the port of a container is fixed at "
            "its start",
            hint="run `lmi up`, which starts it again at the address",
        )

    def stop(self, home: Path, *, grace: float) -> None:
        note = read_note(home / "container.json")
        if note:
            cli = self._talk(_engine_of(note))
            if self._found(home, note) is not None:
                cli.stop(note["name"], grace=grace)
            self._clear(home, cli, note["name"])
        delete_notes(home, *_NOTES)

    def failure(self, home: Path) -> str:
        note = read_note(home / "container.json")
        return failure_of(home, self._failure_reason(home, note, self._found(home, note)), self.log(home))

    def foreground(self, launch: Launch, *, report: Report | None = None) -> int:
        command = self._command(launch, self._engine(), launch.port)
        argv = [*command.argv[:2], "--rm", *command.argv[2:]]
        return self._processes.foreground(
            argv, environment={**self._environment, **command.environment}, report=report
        )

    def _command(self, launch: Launch, engine: ContainerEngine, port: int) -> ContainerCommand:
        other = parse_properties(launch.settings.read_bytes()) if launch.settings else {}
        return command(launch, engine, port, client=self._environment, settings=other)

    def log(self, home: Path) -> Path:
        return home / "server.log"

    def _engine(self) -> ContainerEngine:
        found = self._find()
        if isinstance(found, str):
            raise DeployFailed(f"no container CLI on this machine: {found}", hint="use runtime embedded")
        return found

    def _talk(self, engine: ContainerEngine) -> ContainerCli:
        return ContainerCli(processes=self._processes, engine=engine, environment=self._environment)

    def _found(self, home: Path, note: Mapping[str, object]) -> ContainerState | None:
        """The container of this home; a container of this name that lmi did not create is foreign."""
        if not note:
            return None
        found = self._talk(_engine_of(note)).container(str(note["name"]))
        return found if found and found.labels.get("lmi.home") == str(home.resolve()) else None

    def _clear(self, home: Path, cli: ContainerCli, name: str) -> None:
        """Nothing of an earlier start is left: its client, its container, its notes."""
        client = self._client(home)
        if client is not None:
            self._processes.end(client, grace=5.0)
        found = cli.container(name)
        if found is not None and found.labels.get("lmi.home") != str(home.resolve()):
            raise DeployFailed(
                f"a container {name} exists, but does not belong to this deployment",
                hint=f"remove it (`{cli.engine.kind} rm -f {name}`), or choose another name",
            )
        if found is not None:
            cli.remove(name)
        delete_notes(home, *_NOTES)

    def _client(self, home: Path) -> Process | None:
        process = noted_process(home)
        return process if process and self._processes.alive(process) else None

    def _running(self, home: Path, note: Mapping[str, object], found: ContainerState) -> ObservedServer:
        port = int(str(note["port"]))
        host = str(note["host"])
        observed = health(host, port) if note.get("djl", True) else health_by_status(host, port, "/ping")
        # Elsewhere containers run in a virtual machine, whose process numbers mean nothing here.
        process = self._processes.identify(found.pid) if sys.platform == "linux" else None
        return ObservedServer(
            server=home.name,
            phase=observed.phase,
            pid=found.pid or None,
            port=None if observed.phase == "starting" else port,
            in_flight=observed.in_flight,
            memory=self._processes.memory(process) if process else 0,
            since=found.since,
            message=observed.message,
            runtime=RUNTIME,
            counted=False,
        )

    def _failure_reason(self, home: Path, note: Mapping[str, object], found: ContainerState | None) -> str:
        """Why it does not run, in one line; empty if it runs, or was stopped on request."""
        text = failure_at_start(home)
        if text or not note:
            return text
        if found is None:
            created = (home / "container.id").exists() or self._client(home) is not None
            return "" if created else "the container was not created"
        if found.status not in _ENDED or found.exit_code in REQUESTED_STOPS:
            return ""
        why = ": out of memory" if found.out_of_memory else ""
        return f"the container ended with exit code {found.exit_code}{why}"


def _engine_of(note: Mapping[str, object]) -> ContainerEngine:
    """The container CLI that started the container, even if another one is selected now."""
    fields = note["engine"]
    assert isinstance(fields, dict)
    return ContainerEngine(kind=fields["kind"], program=fields["program"], flags=tuple(fields["flags"]))
