"""Compile scripts run on this machine; each result is stored once, under the identity of what decided it."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from lmi_deploy import __version__
from lmi_deploy.domain.compile import compile_command
from lmi_deploy.domain.dataclass_json import dump, load
from lmi_deploy.domain.events import Event, Line, Notice, Progress
from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.number_text import counted, seconds_text
from lmi_deploy.domain.safe_paths import check_relative_path
from lmi_deploy.errors import CompileFailed, Refused
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.host.disk import on_disk, write_atomically
from lmi_deploy.host.file_lock import file_lock, overwrite
from lmi_deploy.host.process_output import ProcessOutput
from lmi_deploy.host.processes import end
from lmi_deploy.ports.compiled_models import CompileOrder, StoredCompile
from lmi_deploy.ports.environments import CacheEntry
from lmi_deploy.ports.processes import Process

MANIFEST: Final = "manifest.json"
_SCHEMA: Final = 1
_MODEL: Final = "model"
_SCRIPT: Final = "compile.py"
_TICK: Final = 1.0
_GRACE: Final = 5.0
_LAST_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class CompiledModelFolders:
    """`<root>/<identity>/manifest.json` and, beside it, `model/` with the result. The port CompiledModels.

    The folder gets its name only when it is complete. `environment` is what every script gets: no secrets.
    """

    root: Path
    environment: Mapping[str, str]

    def find(self, identity: str) -> StoredCompile | None:
        home = self.root / identity
        try:
            about: dict[str, Any] = json.loads((home / MANIFEST).read_text(encoding="utf-8"))
            files = tuple(load(FileEntry, each) for each in about["files"])
            made_by = str(about["made_by"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        folder = home / _MODEL
        if any(not _has_size(folder / file.path, file.size) for file in files):
            return None
        return StoredCompile(folder=folder, files=files, made_by=made_by)

    def running(self, identity: str) -> bool:
        try:
            with file_lock(self._lock(identity), wait=False):
                return False
        except BlockingIOError:
            return True

    def stop(self, identity: str) -> bool:
        """The holder of the lock sees its script end, and removes what it wrote."""
        if not self.running(identity):
            return False
        script = None
        with suppress(OSError):
            script = _recorded(self._lock(identity).read_text(encoding="utf-8"))
        if script is None:
            return False
        end(script, grace=_GRACE, clock=SystemClock())
        return True

    def entries(self) -> tuple[CacheEntry, ...]:
        names = sorted(path.parent.name for path in self.root.glob(f"[!.]*/{MANIFEST}"))
        return tuple(
            CacheEntry(kind="compiled", name=name, path=self.root / name, size=found.size, note=found.made_by)
            for name in names
            if (found := self.find(name)) is not None
        )

    def remove(self, identity: str) -> int:
        found = self.find(identity)
        try:
            with file_lock(self._lock(identity), wait=False):
                # Renamed first: a half deleted result has no name that find() knows.
                gone = self.root / f".{identity}.part"
                shutil.rmtree(gone, ignore_errors=True)
                with suppress(FileNotFoundError):
                    (self.root / identity).rename(gone)
                shutil.rmtree(gone, ignore_errors=True)
        except BlockingIOError:
            raise Refused(
                f"{identity}: another lmi compiles it now",
                hint="wait for it, or stop it with `lmi compile --stop`",
            ) from None
        return found.size if found else 0

    def make(self, order: CompileOrder, *, key: str) -> Generator[Event, None, StoredCompile]:
        with ExitStack() as stack:
            try:
                lock_file = stack.enter_context(file_lock(self._lock(order.identity), wait=False))
            except BlockingIOError:
                yield Notice(text="another lmi compiles the same model: waiting for it")
                lock_file = stack.enter_context(file_lock(self._lock(order.identity), wait=True))
            # A killed lmi leaves its script behind, which writes to the folder that is removed now.
            if orphan := _recorded(lock_file.read()):
                end(orphan, grace=_GRACE, clock=SystemClock())
            if (found := self.find(order.identity)) is not None:
                return found
            return (yield from self._make_alone(order, key=key, lock_file=lock_file))

    def _make_alone(
        self, order: CompileOrder, *, key: str, lock_file: IO[str]
    ) -> Generator[Event, None, StoredCompile]:
        home, scratch = self.root / order.identity, self.root / f".{order.identity}.part"
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)
        with on_disk(scratch):
            (scratch / _MODEL).mkdir(parents=True)
            (scratch / _SCRIPT).write_bytes(order.script)
        try:
            run = _ScriptRun(order=order, key=key, log=self.root / f"{order.identity}.log")
            yield from run.follow(scratch, self.environment, lock_file)
            files = yield from _hashed(scratch / _MODEL, key=key)
            if not files:
                raise run.failure(
                    "exit status 0, but it wrote no file into its output folder",
                    "write the result into the folder of --output",
                )
            run.log.unlink(missing_ok=True)
            (scratch / _SCRIPT).unlink()
            about = {
                "schema": _SCHEMA,
                "identity": order.identity,
                "made_by": order.made_by,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "seconds": round(run.seconds, 1),
                "tool": __version__,
                "files": [dump(file) for file in files],
            }
            with on_disk(scratch):
                write_atomically(scratch / MANIFEST, json.dumps(about, indent=1) + "\n")
                scratch.rename(home)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return StoredCompile(folder=home / _MODEL, files=files, made_by=order.made_by)

    def _lock(self, identity: str) -> Path:
        return self.root / f".{identity}.lock"


@dataclass(slots=True)
class _ScriptRun:
    """One run of a script, as events; its whole output is in `log`, which stays if it fails."""

    order: CompileOrder
    key: str
    log: Path
    seconds: float = 0.0
    lines: list[str] = field(default_factory=list)

    def follow(
        self, scratch: Path, environment: Mapping[str, str], lock_file: IO[str]
    ) -> Generator[Event, None, None]:
        """CompileFailed if it fails or takes too long; ends it, and what it started, in any case."""
        order, began = self.order, time.monotonic()
        places = (str(scratch / _SCRIPT), str(order.model), str(scratch / _MODEL))
        argv = [str(order.python), "-u", *compile_command(*places, order.arguments)]
        environ = {**environment, **order.variables}
        with (
            on_disk(self.log),
            self.log.open("w", encoding="utf-8", buffering=1) as out,
            ProcessOutput(argv, environ=environ, cwd=scratch) as running,
        ):
            overwrite(lock_file, json.dumps(dump(running.process)))
            for text in running.lines(tick=_TICK):
                self.seconds = time.monotonic() - began
                if self.seconds > order.timeout:
                    raise self.failure(
                        f"it ran longer than its limit of {seconds_text(order.timeout)}",
                        "raise compile.timeout, or compile on a larger machine",
                    )
                yield from self._event(text, out)
            code = running.exit_code()
        if code:
            how = f"exit status {code}" if code > 0 else f"ended by signal {-code}"
            raise self.failure(how, "correct the script, or the packages in compile.requirements")

    def _event(self, text: str | None, out: IO[str]) -> Iterator[Event]:
        if text:
            out.write(f"{text}\n")
            self.lines = [*self.lines[-_LAST_LINES + 1 :], text]
            yield Line(key=self.key, text=text)
        note = self.lines[-1] if self.lines else ""
        limit = float(self.order.timeout)
        yield Progress(key=self.key, done=self.seconds, total=limit, unit="seconds", note=note[:80])

    def failure(self, why: str, hint: str) -> CompileFailed:
        return CompileFailed(
            f"the compile script failed after {seconds_text(self.seconds)}: {why}",
            hint=f"{hint}; nothing of it was kept; its whole output is in {self.log}",
            details=self.lines,
        )


def _hashed(folder: Path, *, key: str) -> Generator[Event, None, tuple[FileEntry, ...]]:
    """CompileFailed for a file that cannot be stored: an absolute or hidden name, or a link to another place."""
    paths = sorted(path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    total = float(sum(path.stat().st_size for path in paths if path.is_file()))
    files, done = [], 0.0
    for path in paths:
        name = path.relative_to(folder).as_posix()
        error = "a link to another place" if path.is_symlink() else check_relative_path(name)
        if error:
            raise CompileFailed(
                f"{name}: {error}, in the output of the compile script", hint="write plain files there"
            )
        hashed = _sha256(path)
        files.append(FileEntry(path=name, size=path.stat().st_size, oid=hashed, kind="sha256"))
        done += path.stat().st_size
        what = f"hashing {counted(len(paths), 'file')}"
        yield Progress(key=key, done=done, total=total, unit="bytes", note=what)
    return tuple(files)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def _recorded(text: str) -> Process | None:
    """The script that a lock file names."""
    try:
        return load(Process, json.loads(text))
    except ValueError:
        return None
