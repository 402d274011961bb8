"""Download many files into the cache: existing files are checked, the others downloaded, failures reported at the
end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lmi_deploy.domain.events import Event, Notice, Progress
from lmi_deploy.domain.facts import FileEntry
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.errors import IntegrityError, LmiError, TransferFailed
from lmi_deploy.sources.hub.cache import Ledger
from lmi_deploy.sources.hub.download import HubDownloader
from lmi_deploy.sources.hub.thread_pool import run_all

WORKERS = 8
Work = Callable[[FileEntry, Callable[[int], None]], None]


@dataclass(slots=True)
class SnapshotDownload:
    """One call of `Hub.fetch`; the generators yield its progress."""

    downloader: HubDownloader
    ledger: Ledger
    free: Callable[[Path], int]
    key: str
    _failed: list[tuple[FileEntry, LmiError]] = field(default_factory=list)

    def check(
        self, existing: Sequence[FileEntry], *, refresh: bool = False
    ) -> Generator[Event, None, list[FileEntry]]:
        """Hash the existing files that were never hashed, or with `refresh` all of them.

        A wrong file is moved away and returned; if it must stay, it is left and an IntegrityError raised.
        """
        new = [entry for entry in existing if refresh or not self._is_known(entry)]
        wrong: list[FileEntry] = []

        def recheck(entry: FileEntry, report: Callable[[int], None]) -> None:
            if not self._recheck(entry, report):
                wrong.append(entry)

        yield from self._run(new, recheck, "checking what is in the cache")
        yield from self._notices()
        self._sum_up(len(new))
        return wrong

    def _recheck(self, entry: FileEntry, report: Callable[[int], None]) -> bool:
        downloader = self.downloader
        try:
            while (path := downloader.cache.complete_file(downloader.listing.commit, entry)) is not None:
                got = downloader.recheck(entry, path, report)
                if got == entry.oid:
                    self.ledger.add(path, entry)
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
                text=f"{entry.path}: what lay in the cache is not what the Hub has ({entry.kind} {entry.oid}): put"
                f" aside as {place}, and fetched again"
            )

    def download(self, absent: Sequence[FileEntry]) -> Generator[Event]:
        """Download the missing files, the largest first."""
        self.require_space(absent)
        try:
            self.downloader.cache.prepare()
        except OSError as exc:
            raise self.downloader.disk_error(exc, absent[0]) from exc

        def transfer(entry: FileEntry, report: Callable[[int], None]) -> None:
            self.downloader.download(entry, report)
            self.ledger.add(self._path(entry), entry)

        yield from self._run(sorted(absent, key=lambda e: -e.size), transfer, "")
        yield from self._notices()
        self._sum_up(len(absent))

    def link(self, files: Sequence[FileEntry]) -> None:
        """Give every file its place in the snapshot."""
        for entry in files:
            try:
                self.downloader.cache.link(self.downloader.listing.commit, entry)
            except OSError as exc:
                raise self.downloader.disk_error(exc, entry) from exc

    def _is_known(self, entry: FileEntry) -> bool:
        return self.ledger.knows(self._path(entry), entry)

    def _path(self, entry: FileEntry) -> Path:
        path = self.downloader.cache.complete_file(self.downloader.listing.commit, entry)
        if path is None:
            raise TransferFailed(
                f"{entry.path}: it was taken out of the cache meanwhile", hint="run it again"
            )
        return path

    def _run(self, entries: Sequence[FileEntry], work: Work, note: str) -> Generator[Progress]:
        positions = {entry.path: 0 for entry in entries}
        by_path = {entry.path: entry for entry in entries}
        total = sum(entry.size for entry in entries)
        tasks = {
            entry.path: partial(work, entry, partial(positions.__setitem__, entry.path)) for entry in entries
        }
        rate_limiter = self.downloader.rate_limiter
        rate_limiter.stop.clear()
        with closing(run_all(tasks, workers=WORKERS, stop=rate_limiter.stop)) as outcomes:
            for outcome in outcomes:
                if outcome is not None and (failure := outcome.error()) is not None:
                    self._failed.append((by_path[outcome.name], failure))
                done = sum(positions.values())
                yield Progress(
                    key=self.key, done=done, total=total, unit="bytes", note=rate_limiter.note or note
                )

    def require_space(self, absent: Sequence[FileEntry]) -> None:
        cache = self.downloader.cache
        needed = sum(entry.size - cache.partial_size(entry) for entry in absent)
        free = self.free(cache.root)
        if needed > free:
            raise TransferFailed(
                f"{self.downloader.listing.model_id}: {size_text(needed)} are to come, and there are"
                f" {size_text(free)} free at {cache.root}; nothing was fetched",
                hint=f"make room for {size_text(needed - free)} more, or let HF_HUB_CACHE name another folder",
            )

    def _sum_up(self, count: int) -> None:
        if not self._failed:
            return
        model = self.downloader.listing.model_id
        details = [f"{entry.path}: {error.message}" for entry, error in self._failed]
        for number, (_, error) in enumerate(self._failed):
            if isinstance(error, IntegrityError):
                others = details[:number] + details[number + 1 :]
                raise IntegrityError(error.message, hint=error.hint, details=others) from error
        raise TransferFailed(
            f"{model}: {len(self._failed)} of {count} files did not arrive, {details[0]}",
            hint=f"{self._failed[0][1].hint}; {count - len(self._failed)} files are whole and kept",
            details=details[1:],
        )
