"""Download many files into the cache: existing files are checked, the others downloaded, failures reported at the
end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.domain.events import Event, Notice, Progress
from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.errors import TransferFailed
from lmi_deploy.sources.hub.file_download import HubDownloader
from lmi_deploy.sources.verified_download import FileRuns, Report, VerifiedFiles, Work, require_space


@dataclass(slots=True)
class SnapshotDownload:
    """One call of `Hub.fetch`; the generators yield its progress."""

    downloader: HubDownloader
    verified: VerifiedFiles
    free: Callable[[Path], int]
    runs: FileRuns

    def check(
        self, existing: Sequence[FileEntry], *, refresh: bool = False
    ) -> Generator[Event, None, list[FileEntry]]:
        """Hash the existing files that were never hashed, or with `refresh` all of them.

        A wrong file is moved away and returned; if it must stay, it is left and an IntegrityError raised.
        """
        new = [entry for entry in existing if refresh or not self.verified.has(self._path(entry), entry)]
        wrong: list[FileEntry] = []

        def recheck(entry: FileEntry, report: Report) -> None:
            if not self._recheck(entry, report):
                wrong.append(entry)

        yield from self._run(new, recheck, "checking the files in the cache")
        yield from self._notices()
        self.runs.raise_failures(len(new))
        return wrong

    def _recheck(self, entry: FileEntry, report: Report) -> bool:
        downloader = self.downloader
        try:
            while (path := downloader.cache.complete_file(downloader.listing.commit, entry)) is not None:
                got = downloader.recheck(entry, path, report)
                if got == entry.oid:
                    self.verified.add(path, entry)
                    return True
                downloader.quarantine(path, entry, got)
        except OSError as exc:
            raise downloader.disk_error(exc, entry) from exc
        return False

    def _notices(self) -> Generator[Notice]:
        quarantined = self.downloader.cache.quarantined
        while quarantined:
            entry, place = quarantined.pop()
            yield Notice(
                text=f"{entry.path}: the file in the cache differs from the Hub's ({entry.kind} {entry.oid}): "
                f"renamed to {place}, and downloaded again"
            )

    def download(self, absent: Sequence[FileEntry]) -> Generator[Event]:
        """Download the missing files, the largest first."""
        self.require_space(absent)
        try:
            self.downloader.cache.prepare()
        except OSError as exc:
            raise self.downloader.disk_error(exc, absent[0]) from exc

        def transfer(entry: FileEntry, report: Report) -> None:
            self.downloader.download(entry, report)
            self.verified.add(self._path(entry), entry)

        yield from self._run(absent, transfer)
        yield from self._notices()
        self.runs.raise_failures(len(absent))

    def link(self, files: Sequence[FileEntry]) -> None:
        """Give every file its place in the snapshot."""
        for entry in files:
            try:
                self.downloader.cache.link(self.downloader.listing.commit, entry)
            except OSError as exc:
                raise self.downloader.disk_error(exc, entry) from exc

    def _path(self, entry: FileEntry) -> Path:
        path = self.downloader.cache.complete_file(self.downloader.listing.commit, entry)
        if path is None:
            raise TransferFailed(
                f"{entry.path}: another process removed it from the cache", hint="run it again"
            )
        return path

    def _run(self, entries: Sequence[FileEntry], work: Work, note: str = "") -> Generator[Progress]:
        return self.runs.run(entries, work, lambda: self.downloader.rate_limiter.note or note)

    def require_space(self, absent: Sequence[FileEntry]) -> None:
        cache = self.downloader.cache
        needed = sum(entry.size - cache.partial_size(entry) for entry in absent)
        require_space(
            self.downloader.listing,
            needed,
            self.free(cache.root),
            folder=cache.root,
            variable="HF_HUB_CACHE",
        )
