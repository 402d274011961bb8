"""Files of a model out of a bucket into a folder: resumed, checked against their oids, only then given their names."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lmi_deploy.domain.events import Event, Notice, Progress
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.errors import TransferFailed
from lmi_deploy.host.disk import free_space, on_disk
from lmi_deploy.host.file_lock import file_lock
from lmi_deploy.sources.download_retry import DownloadStopped
from lmi_deploy.sources.verified_download import (
    FileRuns,
    PartialFile,
    Report,
    VerifiedFiles,
    hash_file,
    require_space,
)

Chunks = Callable[[str, int], Iterator[bytes]]
"""The bytes of a file (its path) from a position on."""


@dataclass(slots=True)
class S3Downloader:
    """One model's `folder`; partial downloads are beside it."""

    listing: ModelListing
    folder: Path
    chunks: Chunks
    verified: VerifiedFiles
    stop: threading.Event = field(default_factory=threading.Event)

    def missing(self, files: Sequence[FileEntry]) -> int:
        return sum(entry.size for entry in files if not self._is_complete(entry))

    def require_space(self, files: Sequence[FileEntry]) -> None:
        require_space(
            self.listing,
            self.missing(files),
            free_space(self.folder),
            folder=self.folder,
            variable="LMI_CACHE_HOME",
        )

    def all(self, files: Sequence[FileEntry], *, key: str) -> Generator[Progress, None, Path]:
        """Each file is hashed once: when it is downloaded, or if it exists and no ledger lists it."""
        runs = FileRuns(self.listing, key, self.stop)
        left = [
            entry
            for entry in files
            if not (self._is_complete(entry) and self.verified.has(self.folder / entry.path, entry))
        ]
        if left:
            with on_disk(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                self._on_the_way.mkdir(parents=True, exist_ok=True)
            with file_lock(self.folder.with_name(f"{self.folder.name}.lock"), wait=True):
                self.require_space(left)
                yield from runs.run(left, self._download)
            runs.raise_failures(len(left))
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

        runs = FileRuns(self.listing, key, self.stop)
        yield from runs.run([entry for entry in files if self._is_complete(entry)], check)
        runs.raise_failures(len(files))
        for entry in wrong:
            yield Notice(
                text=f"{self.folder / entry.path}: the file was damaged; removed and downloaded again"
            )
        return bool(wrong)

    @property
    def _on_the_way(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.incomplete")

    def _is_complete(self, entry: FileEntry) -> bool:
        path = self.folder / entry.path
        return path.is_file() and path.stat().st_size == entry.size

    def _download(self, entry: FileEntry, report: Report) -> None:
        path = self.folder / entry.path
        with on_disk(path):
            if not (self._is_complete(entry) and hash_file(path, entry, report) == entry.oid):
                path.parent.mkdir(parents=True, exist_ok=True)
                pending = PartialFile(
                    self._on_the_way / f"{entry.oid}-{entry.path.replace('/', '--')[-100:]}", entry
                )
                with pending.opened(report):
                    pending.complete(
                        lambda: self._receive(pending, entry, report),
                        subject=f"{self.listing.model_id}{entry.path}",
                        source="its listing",
                        hint="the object is damaged, or was changed after its manifest was written: run `lmi "
                        "weights verify --deep`",
                    )
                pending.path.replace(path)
            self.verified.add(path, entry)

    def _receive(self, pending: PartialFile, entry: FileEntry, report: Report) -> None:
        for chunk in self.chunks(entry.path, pending.position) if pending.position < entry.size else ():
            if self.stop.is_set():
                raise DownloadStopped
            pending.take(chunk)
            report(pending.position)
        if pending.position < entry.size:
            raise TransferFailed(
                f"{entry.path}: the object ends after {pending.position} bytes, but the listing says {entry.size}",
                hint="another program writes to the prefix: run the same command again when that has finished",
            )
