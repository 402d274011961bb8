"""Files of a model onto this disk: several at a time, resumed, and verified before they get their names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import FileIO
from pathlib import Path

from lmi_deploy.domain.content_hashes import start_digest
from lmi_deploy.domain.events import Progress
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.errors import IntegrityError, LmiError, TransferFailed
from lmi_deploy.errors.failed_files import file_failure, raise_failures
from lmi_deploy.host.hash_cache import HashLedger
from lmi_deploy.host.worker_pool import run_tasks
from lmi_deploy.sources.download_retry import DownloadStopped, HashMismatch

WORKERS = 8
CHUNK = 4 << 20
Report = Callable[[int], None]
"""Called with the number of bytes of a file that are done."""
Work = Callable[[FileEntry, Report], None]


def hash_file(path: Path, entry: FileEntry, report: Report) -> str:
    """The hash of the file as its source would give it."""
    digest, done = start_digest(entry.kind, path.stat().st_size), 0
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            report(done)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class VerifiedFiles:
    """The files that were hashed and found correct; a changed file counts as another."""

    ledger: HashLedger

    def has(self, path: Path, entry: FileEntry) -> bool:
        return self.ledger.get(_mark(path)) == entry.oid

    def add(self, path: Path, entry: FileEntry) -> None:
        self.ledger.add(_mark(path), entry.oid)


def _mark(path: Path) -> str:
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"


class PartialFile:
    """An incomplete download, under a name that says so. Its bytes survive a kill."""

    def __init__(self, path: Path, entry: FileEntry) -> None:
        self.path = path
        self._entry = entry
        self._digest = start_digest(entry.kind, entry.size)
        self.position = 0
        self._file: FileIO | None = None

    @contextmanager
    def opened(self, report: Report) -> Generator[None]:
        """Resume an earlier run's file, and hash it on the way."""
        with self.path.open("ab", buffering=0) as file:
            self._file = file
            self._resume(report)
            yield
        self._file = None

    def _resume(self, report: Report) -> None:
        if self.path.stat().st_size > self._entry.size:
            self.restart()
            return
        with self.path.open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK):
                self._digest.update(chunk)
                self.position += len(chunk)
                report(self.position)

    def restart(self) -> None:
        self._opened_file().truncate(0)
        self._digest = start_digest(self._entry.kind, self._entry.size)
        self.position = 0

    def take(self, chunk: bytes | memoryview) -> None:
        if self.position + len(chunk) > self._entry.size:
            raise HashMismatch(f"the response has more than the {self._entry.size} bytes that were listed")
        left = chunk
        while left:
            left = left[self._opened_file().write(left) :]
        self._digest.update(chunk)
        self.position += len(chunk)

    def complete(self, receive: Callable[[], None], *, subject: str, source: str, hint: str) -> None:
        """`receive` takes the missing bytes. As those of an earlier run may be wrong, a wrong file is received once
        more from the start; then IntegrityError.
        """
        try:
            self._receive(receive)
        except HashMismatch:
            self.restart()
            try:
                self._receive(receive)
            except HashMismatch as exc:
                self.path.unlink(missing_ok=True)
                entry = self._entry
                hashes = f"{entry.kind} {exc.got}, but {source} says {entry.oid}" if exc.got else exc.why
                raise IntegrityError(f"{subject}: {hashes}; downloaded twice, not kept", hint=hint) from exc

    def _receive(self, receive: Callable[[], None]) -> None:
        receive()
        got = self._digest.hexdigest()
        if got != self._entry.oid:
            raise HashMismatch(f"its {self._entry.kind} is {got}, {self._entry.oid} is right", got=got)

    def _opened_file(self) -> FileIO:
        if self._file is None:
            raise RuntimeError("the partial file is not open")
        return self._file


@dataclass(slots=True)
class FileRuns:
    """Work on the files of one `fetch`, several at a time; failures are kept until `raise_failures`."""

    listing: ModelListing
    key: str
    stop: threading.Event
    _failed: dict[str, LmiError] = field(default_factory=dict)

    def run(
        self, entries: Sequence[FileEntry], work: Work, note: Callable[[], str] = str
    ) -> Generator[Progress]:
        """The largest first."""
        positions = {entry.path: 0 for entry in entries}
        total = sum(entry.size for entry in entries)
        tasks = {
            entry.path: partial(work, entry, partial(positions.__setitem__, entry.path))
            for entry in sorted(entries, key=lambda entry: -entry.size)
        }
        self.stop.clear()
        with closing(run_tasks(tasks, workers=WORKERS, stop=self.stop)) as results:
            for result in results:
                raised = None if result is None else result.raised
                if result is not None and raised is not None and not isinstance(raised, DownloadStopped):
                    self._failed[result.name] = file_failure(raised)
                done = sum(positions.values())
                yield Progress(key=self.key, done=done, total=total, unit="bytes", note=note())

    def raise_failures(self, count: int) -> None:
        """The error of those that failed, of `count` files."""
        raise_failures(self._failed, count, model_id=self.listing.model_id)


def require_space(listing: ModelListing, needed: int, free: int, *, folder: Path, variable: str) -> None:
    if needed > free:
        raise TransferFailed(
            f"{listing.model_id}: {size_text(needed)} to download, but only {size_text(free)} are free at {folder}; "
            "nothing was downloaded",
            hint=f"free {size_text(needed - free)} more, or set {variable} to another folder",
        )
