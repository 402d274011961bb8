"""Runtime `djl-serving`: an installed DJLServing, with a separate configuration, temporary folder and log."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.ports.processes import Process, Processes, Report
from lmi_deploy.runtimes.djl_serving.installation import DjlInstallation, settings_file, variables
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
from lmi_deploy.runtimes.server_health import Health, health

RUNTIME = "djl-serving"
WATCHED = """
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


class DjlServing:
    """A `ModelServer`; `find` returns the installation, or the reason why there is none."""

    def __init__(
        self,
        processes: Processes,
        environment: Mapping[str, str],
        find: Callable[[], DjlInstallation | str],
    ) -> None:
        """`environment` is that of every server, without secrets."""
        self._processes = processes
        self._environment = environment
        self._find = find

    def start(self, launch: Launch) -> ObservedServer:
        installation = self._installation()
        launch.home.mkdir(parents=True, exist_ok=True)
        delete_notes(launch.home, *_NOTES)
        port = port_at_start(launch)
        if port is None:
            return self.status(launch.home)
        argv = self._prepared(launch, installation, port)
        write_note(
            launch.home / "listening.json",
            {"host": launch.host, "port": port, "folder": str(launch.model_folder.resolve())},
        )
        process = self._processes.start(
            ["/bin/sh", "-c", WATCHED, RUNTIME, str(launch.home), *argv],
            log=self.log(launch.home),
            cwd=launch.home,
            environment=self._variables(launch, installation),
        )
        write_process(launch.home, process)
        return self.status(launch.home)

    def status(self, home: Path) -> ObservedServer:
        process = self._process(home)
        if process is None:
            return not_running(home, self._failure_reason(home), runtime=RUNTIME)
        place = read_note(home / "listening.json")
        observed = health(str(place.get("host")), int(place.get("port", 0)))
        if observed.folder and observed.folder != place.get("folder"):
            # Another process took the port between our check and the end of loading: our server will fail because of
            # it.
            observed = Health(phase="starting", message=f"another server answers at port {place['port']}")
        return ObservedServer(
            server=home.name,
            phase=observed.phase,
            pid=process.pid,
            port=None if observed.phase == "starting" else int(place["port"]),
            in_flight=observed.in_flight,
            memory=self._processes.memory(process),
            message=observed.message,
            runtime=RUNTIME,
            counted=False,
        )

    def take_over(self, home: Path, previous: Path, *, host: str, port: int) -> None:
        raise DeployFailed(
            f"{home.name} cannot take over {host}:{port} from {previous.name}: an installed DJLServing cannot take "
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
        installation = self._installation()
        try:
            port = chosen_port(launch.host, launch.port)
            argv = self._prepared(launch, installation, port)
            return self._processes.foreground(
                argv, environment=self._variables(launch, installation), report=report
            )
        except OSError as reason:
            raise DeployFailed(
                f"{launch.host}:{launch.port}: {reason.strerror}", hint="choose another --port"
            ) from None
        finally:
            shutil.rmtree(run_folder(launch.home), ignore_errors=True)

    def log(self, home: Path) -> Path:
        return home / "server.log"

    def _installation(self) -> DjlInstallation:
        found = self._find()
        if isinstance(found, str):
            raise DeployFailed(
                f"no DJLServing on this machine: {found}", hint="install one, or use runtime embedded"
            )
        return found

    def _prepared(self, launch: Launch, installation: DjlInstallation, port: int) -> list[str]:
        """The command line; its file and its private folder are created."""
        fresh_run_folder(launch.home)
        file = launch.home / "config.properties"
        file.write_bytes(settings_file(launch, port, launch.settings))
        return [str(installation.program), "-f", str(file)]

    def _variables(self, launch: Launch, installation: DjlInstallation) -> dict[str, str]:
        return variables(launch, installation, self._environment, temporary=run_folder(launch.home))

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
        killed = ": killed, out of memory or by SERVING_FAIL_FAST" if code == 137 else ""
        return f"DJLServing ended with exit code {code}{killed}"


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
