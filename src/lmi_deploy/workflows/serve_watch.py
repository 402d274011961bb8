"""Serve a model folder during development: restart whenever one of its files changes."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lmi_deploy.domain.events import Event, Line, Notice
from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.errors import LmiError
from lmi_deploy.ports.model_server import Launch, ModelServer
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.error_diagnosis import advice, of_log
from lmi_deploy.workflows.handler_validation import folder_findings
from lmi_deploy.workflows.serve import ServeOptions, launch_of, prepare

POLL = 0.4
"""Seconds between two looks at the folder, the log and the server."""
GRACE = 5.0
"""Seconds for a server to stop before the next one starts."""
_KEY = "server"
FileSnapshot = Mapping[str, tuple[int, int]]
"""Path in the folder to time of change (nanoseconds) and size."""


def watch(options: ServeOptions, deps: Dependencies) -> Iterator[Event]:
    """Serve until the caller stops. Every start gives its reason; after a failure the next change is awaited."""
    server = deps.servers[options.runtime]
    python = options.python.absolute() if options.python else None
    options = replace(
        options, folder=options.folder.absolute(), python=python
    )  # the server runs in its own folder
    while True:
        watched = (options.folder, *((options.settings,) if options.settings else ()))
        stamps = snapshot_files(*watched)
        with tempfile.TemporaryDirectory(prefix="lmi-watch-") as home:
            try:
                launch = yield from _start(options, Path(home), server, deps)
                run = _ServerRun(server=server, home=Path(home), launch=launch)
                why = yield from _until_changed(watched, stamps, run, deps)
            finally:
                server.stop(Path(home), grace=GRACE)
        yield Notice(text=f"{why}: restarting")


def _start(
    options: ServeOptions, home: Path, server: ModelServer, deps: Dependencies
) -> Generator[Event, None, Launch | None]:
    """None if it is already known that the start would fail."""
    found = folder_findings(options.folder)
    for finding in found:
        yield Notice(text=f"model.py:{finding.line}: {finding.what}; {finding.hint}")
    if any(finding.fatal for finding in found):
        yield Notice(text="not started: correct model.py, and lmi tries again")
        return None
    try:
        python = yield from prepare(options, deps)
        launch = launch_of(options, python, home, deps)
        server.start(launch)
    except LmiError as error:
        yield Notice(text=f"not started: {error.message}" + (f"; {error.hint}" if error.hint else ""))
        return None
    return launch


def _until_changed(
    watched: tuple[Path, ...], stamps: FileSnapshot, run: _ServerRun, deps: Dependencies
) -> Generator[Event, None, str]:
    """The server's output and status, until the watched files have changed and been stable for a moment."""
    while True:
        yield from run.events()
        observed = snapshot_files(*watched)
        if difference(stamps, observed):
            deps.clock.sleep(POLL)
            if observed == (settled := snapshot_files(*watched)):
                return difference(stamps, settled)
        deps.clock.sleep(POLL)


@dataclass(slots=True, kw_only=True)
class _ServerRun:
    """One server, and how much of its log was shown."""

    server: ModelServer
    home: Path
    launch: Launch | None
    read: int = 0
    phase: str = ""

    def events(self) -> Iterator[Event]:
        if self.launch is None:
            return
        yield from self._lines()
        observed = self.server.status(self.home)
        if observed.phase != self.phase:
            self.phase = observed.phase
            yield from self._lines()
            yield from self._became(observed, self.launch)

    def _lines(self) -> Iterator[Event]:
        log = self.server.log(self.home)
        if not log.is_file():
            return
        with log.open("rb") as file:
            file.seek(self.read)
            fresh = file.read()
        content = fresh[: fresh.rfind(b"\n") + 1]
        self.read += len(content)
        yield from (Line(key=_KEY, text=line) for line in content.decode("utf-8", "replace").splitlines())

    def _became(self, observed: ObservedServer, launch: Launch) -> Iterator[Event]:
        if observed.phase == "ready":
            yield Notice(text=f"serving at http://{launch.host}:{observed.port}/invocations; Ctrl-C stops it")
        elif observed.phase in ("failed", "gone"):
            lines = self._output()
            yield Notice(
                text=f"the model server failed: {lines[0] if observed.pid is None and lines else observed.failure}"
            )
            if found := of_log(lines, ""):
                yield Notice(text=f"{found.cause} {advice(found)}")
            yield Notice(text="change a file of the folder to start it again")

    def _output(self) -> list[str]:
        """Its own error message, else all its output."""
        log = self.server.log(self.home)
        text = self.server.failure(self.home) or (log.read_text(errors="replace") if log.is_file() else "")
        return text.splitlines()


def snapshot_files(folder: Path, *extra: Path) -> FileSnapshot:
    """Every file except hidden ones and Python's compiled ones; and the files `extra` outside of the folder."""
    found: dict[str, tuple[int, int]] = {}
    named = [(path.relative_to(folder).as_posix(), path) for path in sorted(folder.rglob("*"))]
    shown = [
        (name, path)
        for name, path in named
        if not any(part.startswith(".") or part == "__pycache__" for part in name.split("/"))
    ]
    for name, path in [*shown, *((str(path), path) for path in extra)]:
        try:
            if path.is_file():
                state = path.stat()
                found[name] = (state.st_mtime_ns, state.st_size)
        except FileNotFoundError:  # editors write beside and rename
            continue
    return found


def difference(before: FileSnapshot, after: FileSnapshot) -> str:
    """The changes, in a few words; empty if there are none."""
    kinds = [
        ("changed", [name for name in after if name in before and after[name] != before[name]]),
        ("is new", [name for name in after if name not in before]),
        ("is gone", [name for name in before if name not in after]),
    ]
    lines = [f"{name} {kind}" for kind, names in kinds for name in names]
    return ", ".join(lines[:3]) + (f" and {len(lines) - 3} more" if len(lines) > 3 else "")
