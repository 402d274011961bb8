"""The state of local deployments: a folder each, with its record; one writer at a time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmi_deploy.domain.deployment_artifact import ArtifactFile
from lmi_deploy.domain.deployment_names import name_error
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.record import AN_UP, DeploymentRef, Generation, Record, ServingChange
from lmi_deploy.domain.record_json import (
    accepted,
    expected,
    finished,
    intended,
    parse_record,
    record_text,
    settled,
)
from lmi_deploy.errors import DiskRefused, IntegrityError, Locked, UsageRefused
from lmi_deploy.host.disk import on_disk, write_atomically
from lmi_deploy.host.file_lock import file_lock, overwrite
from lmi_deploy.host.processes import alive, identity
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.local_state import CopiedPath
from lmi_deploy.ports.processes import Process

_RECORD = "record.json"


class StateDir:
    """`<root>/deployments/<name>/`: record.json, artifacts/<digest>/, servers/<server>/."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._deployments = root / "deployments"

    def home(self, name: str) -> Path:
        if error := name_error(name):
            raise UsageRefused(f"{name}: not a valid deployment name", hint=error)
        return self._deployments / name

    def artifact(self, name: str, digest: str) -> Path:
        return self.home(name) / "artifacts" / digest

    def server(self, name: str, server: str) -> Path:
        return self.home(name) / "servers" / server

    def names(self) -> tuple[str, ...]:
        """Every deployment of which anything is here, with a record or without."""
        if not self._deployments.is_dir():
            return ()
        return tuple(
            sorted(p.name for p in self._deployments.iterdir() if p.is_dir() and not name_error(p.name))
        )

    def exists(self, name: str) -> bool:
        return self.home(name).is_dir()

    def artifacts(self, name: str) -> tuple[str, ...]:
        return tuple(folder.name for folder in _folders(self.home(name) / "artifacts"))

    def put_artifact(
        self, name: str, digest: str, files: tuple[ArtifactFile, ...], copies: tuple[CopiedPath, ...] = ()
    ) -> None:
        """In a folder beside its place first: a folder that has the digest's name is whole."""
        place = self.artifact(name, digest)
        partial = place.with_name(f".{digest}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        with on_disk(place):
            partial.mkdir(parents=True)
            for file in files:
                _made(partial / file.path).write_bytes(file.content)
            for copied in copies:
                _copy(copied, _made(partial / copied.path))
            shutil.rmtree(place, ignore_errors=True)
            partial.rename(place)

    def servers(self, name: str) -> tuple[Path, ...]:
        found = _folders(self.home(name) / "servers")
        return tuple(sorted(found, key=lambda folder: (folder.stat().st_mtime_ns, folder.name)))

    def read(self, name: str) -> Record | None:
        """The record; None if there is none, or if it cannot be read (`unreadable_reason` says why)."""
        try:
            return _parse(self.home(name) / _RECORD)
        except ValueError:
            return None

    def unreadable_reason(self, name: str) -> str:
        """Why the record cannot be read, in words; empty if it can."""
        path = self.home(name) / _RECORD
        try:
            _parse(path)
        except ValueError as exc:
            return f"{path}: not a record: {exc}; only the history is lost, not the deployment"
        return ""

    def write(self, record: Record) -> None:
        """Complete on disk when this returns, even after a crash; an unreadable record is kept beside it."""
        path = self.home(record.ref.name) / _RECORD
        with on_disk(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if self.unreadable_reason(record.ref.name):
                path.rename(_unused(path))
            write_atomically(path, record_text(record))

    def remove(self, name: str) -> None:
        """All files of the deployment, its record last: an interrupted removal can be repeated."""
        home = self.home(name)
        if not home.is_dir():
            return
        for path in sorted(home.iterdir(), key=lambda found: found.name == _RECORD):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        home.rmdir()


@dataclass(frozen=True, slots=True)
class FileJournal:
    """The port Journal over a StateDir. The caller holds the deployment's lock."""

    folder: StateDir
    ref: DeploymentRef

    def begin(self, action: Action) -> None:
        self._note(action, intended(self._record(), action))

    def complete(self, action: Action, outcome: str) -> None:
        if not self.folder.exists(self.ref.name):
            return  # the action was the removal of the deployment, record and all
        self._note(action, finished(self._record(), action, outcome))

    def set_pending(self, generation: Generation) -> None:
        self.folder.write(expected(self._record(), generation))

    def commit(self, generation: Generation, change: ServingChange = AN_UP) -> None:
        self.folder.write(settled(self._record(), generation, change))

    def accept(self, server: str) -> None:
        self.folder.write(accepted(self._record(), server))

    def restore(self, record: Record) -> None:
        if not self._record().known:
            self.folder.write(record)

    def _note(self, action: Action, record: Record) -> None:
        try:
            self.folder.write(record)
        except DiskRefused:
            # Deletions free space: on a full disk they continue without a record; the observed state takes precedence
            # over it.
            if not action.phase.removes:
                raise

    def _record(self) -> Record:
        return self.folder.read(self.ref.name) or Record(ref=self.ref)


class FileLock:
    """The port Lock: a flock, which is released when its holder exits, however it exits. `command` is shown to a
    process that is refused.
    """

    def __init__(self, root: Path, clock: Clock, command: str) -> None:
        self._root = root / "locks"
        self._clock = clock
        self._command = command

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        path = self._path(name)
        with ExitStack() as stack:
            try:
                handle = stack.enter_context(file_lock(path, wait=False))
            except BlockingIOError as exc:
                raise Locked(
                    f"{name}: locked by {self.holder(name) or 'another lmi'}",
                    hint="wait until it has ended, then run the same command again",
                ) from exc
            # A full disk hides only the name of the holder: the lock itself needs no space.
            with suppress(OSError):
                overwrite(handle, json.dumps(self._holder()))
            yield

    def holder(self, name: str) -> str:
        try:
            found = json.loads(self._path(name).read_text(encoding="utf-8"))
            process = Process(pid=found["pid"], started=found["started"])
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
            return ""
        # Several hosts may share a folder; the processes of another host cannot be checked here.
        if found["host"] == socket.gethostname() and not alive(process):
            return ""
        return f"{found['command']} (pid {process.pid} on {found['host']}, since {found['since']})"

    def unlock(self, name: str, lock_id: str, *, force: bool = False) -> str:
        holder = self.holder(name)
        raise UsageRefused(
            f"{name}: a local lock ends with its process; there is nothing to unlock",
            hint=f"wait for {holder}, or end it" if holder else "run the command that was refused again",
        )

    def sweep(self, name: str) -> None:
        if self._path(name).exists():
            with suppress(BlockingIOError), file_lock(self._path(name), wait=False):
                pass

    def _path(self, name: str) -> Path:
        if error := name_error(name):
            raise UsageRefused(f"{name}: not a valid deployment name", hint=error)
        return self._root / f"{name}.lock"

    def _holder(self) -> dict[str, Any]:
        pid = os.getpid()
        since = self._clock.now().isoformat(timespec="seconds")
        started = identity(pid) or ""
        return {
            "pid": pid,
            "started": started,
            "host": socket.gethostname(),
            "command": self._command,
            "since": since,
        }


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _copy(copied: CopiedPath, target: Path) -> None:
    source = copied.source.resolve()  # the Hub's cache consists of links
    if copied.is_linked:
        try:
            os.link(source, target)
        except OSError:  # another file system, or one without hard links
            pass
        else:
            return
    shutil.copyfile(source, target)
    with target.open("rb") as copy:
        found = hashlib.file_digest(copy, "sha256").hexdigest()
    if not copied.is_linked and found != copied.oid:
        raise IntegrityError(
            f"{source}: its content has changed since the plan was made", hint="run the same command again"
        )


def _folders(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir() and not path.name.startswith("."))


def _parse(path: Path) -> Record | None:
    """ValueError if the file contains no valid record; Refused if a newer lmi wrote it."""
    with on_disk(path):
        try:
            text = path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
    return parse_record(text, str(path))


def _unused(path: Path) -> Path:
    """An unused name for a backup: earlier backups stay, too."""
    number = 1
    while (kept := path.with_name(f"{path.name}.bak{number}")).exists():
        number += 1
    return kept
