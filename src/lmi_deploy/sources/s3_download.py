"""Files of a model out of a bucket into a folder: resumed, checked against their oids, only then given their names."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lmi_deploy.domain.events import Event, Notice, Progress
from lmi_deploy.domain.facts import FileEntry, ModelListing
from lmi_deploy.errors import IntegrityError, LmiError, TransferFailed
from lmi_deploy.host.disk import on_disk
from lmi_deploy.host.file_lock import file_lock
from lmi_deploy.sources.hub.cache import Ledger, free_bytes, hash_file
from lmi_deploy.sources.hub.download import PartialFile
from lmi_deploy.sources.hub.retry import DownloadStopped, HashMismatch
from lmi_deploy.sources.hub.thread_pool import run_all

_AT_ONCE = 8
Chunks = Callable[[str, int], Iterator[bytes]]
"""The bytes of a file (its path) from a position on."""
Report = Callable[[int], None]


@dataclass(slots=True)
class S3Downloader:
    """One model's `folder`; partial downloads are beside it. `checked`: a ledger of files found correct."""

    listing: ModelListing
    folder: Path
    chunks: Chunks
    checked: Path
    _stop: threading.Event = field(default_factory=threading.Event)
    _failed: dict[str, LmiError] = field(default_factory=dict)

    def missing(self, files: Sequence[FileEntry]) -> int:
        return sum(entry.size for entry in files if not self._is_complete(entry))

    def require_space(self, files: Sequence[FileEntry]) -> None:
        needed, free = self.missing(files), free_bytes(self.folder)
        if needed > free:
            raise TransferFailed(
                f"{self.listing.model_id}: {needed} bytes are to come, {free} are free at {self.folder}",
                hint="make room there, or let LMI_CACHE_HOME name another folder",
            )

    def all(self, files: Sequence[FileEntry], *, key: str) -> Generator[Progress, None, Path]:
        """Each file is hashed once: when it is downloaded, or if it exists and no ledger lists it."""
        ledger = Ledger(self.checked)
        left = [
            entry
            for entry in files
            if not (self._is_complete(entry) and ledger.knows(self.folder / entry.path, entry))
        ]
        if left:
            with on_disk(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                self._on_the_way.mkdir(parents=True, exist_ok=True)
            with file_lock(self.folder.with_name(f"{self.folder.name}.lock"), wait=True):
                self.require_space(left)
                yield from self._run(left, partial(self._download, ledger), key)
            self._sum_up(len(left))
            shutil.rmtree(self._on_the_way, ignore_errors=True)
        return self.folder

    def recheck(self, files: Sequence[FileEntry], *, key: str) -> Generator[Event, None, bool]:
        """Hash the existing files again, ignoring the ledger; a damaged file is deleted, because this cache belongs
        to lmi.
        """
        wrong: list[FileEntry] = []

        def check(entry: FileEntry, report: Report) -> None:
            path = self.folder / entry.path
            with on_disk(path):
                if hash_file(path, entry, report) != entry.oid:
                    path.unlink()
                    wrong.append(entry)

        yield from self._run([entry for entry in files if self._is_complete(entry)], check, key)
        self._sum_up(len(files))
        for entry in wrong:
            yield Notice(text=f"{self.folder / entry.path}: it was damaged; removed, and fetched again")
        return bool(wrong)

    @property
    def _on_the_way(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.incomplete")

    def _is_complete(self, entry: FileEntry) -> bool:
        path = self.folder / entry.path
        return path.is_file() and path.stat().st_size == entry.size

    def _run(
        self, entries: Sequence[FileEntry], work: Callable[[FileEntry, Report], None], key: str
    ) -> Generator[Progress, None, None]:
        at = {entry.path: 0 for entry in entries}
        total = sum(entry.size for entry in entries)
        tasks = {
            entry.path: partial(work, entry, partial(at.__setitem__, entry.path))
            for entry in sorted(entries, key=lambda entry: -entry.size)
        }
        with closing(run_all(tasks, workers=_AT_ONCE, stop=self._stop)) as outcomes:
            for outcome in outcomes:
                if outcome is not None and (failure := outcome.error()) is not None:
                    self._failed[outcome.name] = failure
                yield Progress(key=key, done=sum(at.values()), total=total, unit="bytes")

    def _download(self, ledger: Ledger, entry: FileEntry, report: Report) -> None:
        path = self.folder / entry.path
        with on_disk(path):
            if not (self._is_complete(entry) and hash_file(path, entry, report) == entry.oid):
                path.parent.mkdir(parents=True, exist_ok=True)
                pending = PartialFile(
                    self._on_the_way / f"{entry.oid}-{entry.path.replace('/', '--')[-100:]}", entry
                )
                with pending.opened():
                    pending.resume(report)
                    self._complete(pending, entry, report)
                pending.path.replace(path)
            ledger.add(path, entry)

    def _complete(self, pending: PartialFile, entry: FileEntry, report: Report) -> None:
        try:
            self._take(pending, entry, report)
        except HashMismatch:
            # The bytes of an earlier run may be wrong: try once more, from the start.
            pending.restart()
            try:
                self._take(pending, entry, report)
            except HashMismatch as exc:
                pending.path.unlink(missing_ok=True)
                raise self._damaged(entry, exc) from exc

    def _take(self, pending: PartialFile, entry: FileEntry, report: Report) -> None:
        for chunk in self.chunks(entry.path, pending.position) if pending.position < entry.size else ():
            if self._stop.is_set():
                raise DownloadStopped
            pending.take(chunk)
            report(pending.position)
        if pending.position < entry.size:
            raise TransferFailed(
                f"{entry.path}: the object ends after {pending.position} bytes, {entry.size} are listed",
                hint="somebody writes to the prefix: run the same command again when it is still",
            )
        pending.check()

    def _damaged(self, entry: FileEntry, exc: HashMismatch) -> IntegrityError:
        got = f"{entry.kind} {exc.got} came, {entry.oid} is right" if exc.got else exc.why
        return IntegrityError(
            f"{self.listing.model_id}{entry.path}: {got}; fetched twice, not kept",
            hint="the object is damaged, or was changed after its manifest was written: `lmi weights verify --deep`",
        )

    def _sum_up(self, count: int) -> None:
        if not self._failed:
            return
        errors = list(self._failed.values())
        first = next((error for error in errors if isinstance(error, IntegrityError)), errors[0])
        details = [error.message for error in errors if error is not first]
        kind = IntegrityError if isinstance(first, IntegrityError) else TransferFailed
        raise kind(
            first.message
            if kind is IntegrityError
            else f"{len(errors)} of {count} files did not arrive, {first.message}",
            hint=f"{first.hint}; {count - len(errors)} files are whole and kept",
            details=details,
        ) from first
