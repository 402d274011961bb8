"""A `ModelServer` of any program that listens at one address: DJLServing, Triton, the server of a custom image."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.ports.processes import Process, Processes, Report
from lmi_deploy.runtimes.server_dirs import (
    REQUESTED_STOPS,
    chosen_port,
    delete_notes,
    failure_at_start,
    failure_of,
    fresh_run_folder,
    not_running,
    noted_process,
    port_at_start,
    read_note,
    run_folder,
    write_note,
    write_process,
)
from lmi_deploy.runtimes.server_health import Health, health_by_status

_WATCHED = """
here=$1; shift
echo $$ > "$here/pid.partial"; mv "$here/pid.partial" "$here/pid"
"$@" & child=$!
trap 'kill -TERM "$child"' TERM INT
wait "$child"; code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
echo "$code" > "$here/exit.partial"; mv "$here/exit.partial" "$here/exit"
exit "$code"
"""
"""A shell around the server: only a parent process gets the exit code, and the command that started it has exited."""
_NOTES = ("process.json", "listening.json", "pid", "exit")
_KILLED = 137


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCommand:
    """`environment` is complete: the program inherits nothing else."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningAddress:
    host: str
    port: int
    model_folder: str
    """Absolute: the folder that the server at this address must serve."""


class ServedProgram(Protocol):
    """One kind of program. It keeps no state: all that belongs to one server is in its home folder."""

    @property
    def runtime(self) -> str:
        """The runtime's name in the status."""

    @property
    def title(self) -> str:
        """The program's name in messages."""

    @property
    def when_killed(self) -> str:
        """What exit code 137 means, in a message."""

    def prepare(self, launch: Launch, port: int) -> ProgramCommand:
        """The command that listens at `port` of `launch.host`; its files are written below `launch.home`.

        DeployFailed if it cannot be started on this machine.
        """

    def health(self, address: ListeningAddress) -> Health:
        """The health of the program at the address; its process runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProgram:
    """A `ServedProgram` that is healthy when GET `health_path` answers 200."""

    runtime: str
    title: str
    command: Callable[[Launch, int], ProgramCommand]
    health_path: str = "/ping"
    when_killed: str = "killed, for example because memory ran out"

    def prepare(self, launch: Launch, port: int) -> ProgramCommand:
        return self.command(launch, port)

    def health(self, address: ListeningAddress) -> Health:
        return health_by_status(address.host, address.port, self.health_path)


class ProgramServer:
    """A `ModelServer`: the program runs in a session of its own, which ends as a whole."""

    def __init__(self, processes: Processes, program: ServedProgram) -> None:
        self._processes = processes
        self._program = program

    def start(self, launch: Launch) -> ObservedServer:
        launch.home.mkdir(parents=True, exist_ok=True)
        delete_notes(launch.home, *_NOTES)
        port = port_at_start(launch)
        if port is None:
            return self.status(launch.home)
        command = self._prepared(launch, port)
        write_note(
            launch.home / "listening.json",
            {"host": launch.host, "port": port, "folder": str(launch.model_folder.resolve())},
        )
        process = self._processes.start(
            ["/bin/sh", "-c", _WATCHED, self._program.runtime, str(launch.home), *command.argv],
            log=self.log(launch.home),
            cwd=launch.home,
            environment=command.environment,
        )
        write_process(launch.home, process)
        return self.status(launch.home)

    def status(self, home: Path) -> ObservedServer:
        runtime, process = self._program.runtime, self._process(home)
        note = read_note(home / "listening.json")
        if process is None or not note:
            return not_running(home, self._failure_reason(home), runtime=runtime)
        port = int(note["port"])
        address = ListeningAddress(host=str(note["host"]), port=port, model_folder=str(note["folder"]))
        observed = self._program.health(address)
        return ObservedServer(
            server=home.name,
            phase=observed.phase,
            pid=process.pid,
            port=None if observed.phase == "starting" else port,
            in_flight=observed.in_flight,
            memory=self._processes.memory(process),
            message=observed.message,
            runtime=runtime,
            counted=False,
        )

    def take_over(self, home: Path, previous: Path, *, host: str, port: int) -> None:
        raise DeployFailed(
            f"{home.name} cannot take over {host}:{port} from {previous.name}: {self._program.title} cannot take "
            "over a listening socket",
            hint="run `lmi up`, which starts it again at the address",
        )

    def stop(self, home: Path, *, grace: float) -> None:
        process = self._process(home)
        if process is not None:
            self._processes.end(process, grace=grace)
        shutil.rmtree(run_folder(home), ignore_errors=True)
        delete_notes(home, *_NOTES)

    def failure(self, home: Path) -> str:
        return failure_of(home, self._failure_reason(home), self.log(home))

    def foreground(self, launch: Launch, *, report: Report | None = None) -> int:
        try:
            launch.home.mkdir(parents=True, exist_ok=True)
            command = self._prepared(launch, chosen_port(launch.host, launch.port))
            return self._processes.foreground(command.argv, environment=command.environment, report=report)
        except OSError as reason:
            raise DeployFailed(
                f"{launch.host}:{launch.port}: {reason.strerror}", hint="choose another --port"
            ) from None
        finally:
            shutil.rmtree(run_folder(launch.home), ignore_errors=True)

    def log(self, home: Path) -> Path:
        return home / "server.log"

    def _prepared(self, launch: Launch, port: int) -> ProgramCommand:
        fresh_run_folder(launch.home)
        return self._program.prepare(launch, port)

    def _process(self, home: Path) -> Process | None:
        """By the note, else by the process id that the shell wrote (if we were killed before writing the note)."""
        if (process := noted_process(home)) is not None:
            return process if self._processes.alive(process) else None
        number = _number(home / "pid")
        return None if number is None else self._processes.identify(number)

    def _failure_reason(self, home: Path) -> str:
        """Why it exited, in one line; empty if it runs, or was stopped on request."""
        text = failure_at_start(home)
        code = _number(home / "exit")
        if text or code is None or code in REQUESTED_STOPS:
            return text
        killed = f": {self._program.when_killed}" if code == _KILLED else ""
        return f"{self._program.title} ended with exit code {code}{killed}"


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
