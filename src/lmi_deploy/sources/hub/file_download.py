"""One file, from the Hub into the cache: resumed, checked against its oid, and only then given its name."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.errors import IntegrityError, TransferFailed
from lmi_deploy.sources.download_retry import (
    Attempts,
    HashMismatch,
    RateLimiter,
    RetriesExhausted,
    RetryableError,
    Unreachable,
)
from lmi_deploy.sources.hub.cache import RepoCache
from lmi_deploy.sources.hub.hub_settings import HubSettings
from lmi_deploy.sources.hub.range_headers import ByteSpan
from lmi_deploy.sources.hub.range_reader import RangeReader
from lmi_deploy.sources.verified_download import PartialFile, Report, hash_file

GO_ON = "run the same command again: it continues with the part that was kept"
BAD_BYTES = "check whether a proxy changes the data; if not, the Hub's own copy is damaged"
SEGMENT = 8 << 30
"""Bytes per request: the stores behind the Hub refuse responses of more than 50 GB."""


@dataclass(frozen=True, slots=True)
class HubDownloader:
    """The shared state of all files of one `fetch`."""

    streamer: RangeReader
    listing: ModelListing
    cache: RepoCache
    rate_limiter: RateLimiter
    segment: int = SEGMENT

    @property
    def settings(self) -> HubSettings:
        return self.streamer.connection.settings

    def download(self, entry: FileEntry, report: Report) -> None:
        """Make the blob exist, complete and correct. Raises TransferFailed, IntegrityError or AccessError."""
        try:
            with self.cache.locked(entry):
                if not self._completed_meanwhile(entry, report):
                    self._download(entry, report)
                self.cache.link(self.listing.commit, entry)
        except OSError as exc:
            raise self.disk_error(exc, entry) from exc

    def _completed_meanwhile(self, entry: FileEntry, report: Report) -> bool:
        """Whether another program completed the blob while this one waited for its lock, and the bytes are correct.

        huggingface_hub does not hash what it completes. A wrong file is moved away.
        """
        while (path := self.cache.complete_file(self.listing.commit, entry)) is not None:
            if self.recheck(entry, path, report) == entry.oid:
                return True
            self.cache.quarantine(path, entry)
        report(0)
        return False

    def _download(self, entry: FileEntry, report: Report) -> None:
        partial = PartialFile(self.cache.partial(entry), entry)
        try:
            with partial.opened(report):
                partial.complete(
                    lambda: self._receive(partial, entry, report),
                    subject=f"{self.listing.model_id}: {entry.path}",
                    source="the Hub",
                    hint=f"{BAD_BYTES}: compare with "
                    f"{self.settings.endpoint}/{self.listing.model_id}/blob/{self.listing.commit}/{entry.path}",
                )
            self.cache.quarantine(self.cache.blob(entry), entry)
            partial.path.replace(self.cache.blob(entry))
        finally:
            if partial.position == 0:
                # Refused before the first byte: nothing worth keeping.
                partial.path.unlink(missing_ok=True)

    def _receive(self, partial: PartialFile, entry: FileEntry, report: Report) -> None:
        attempts = Attempts(self.rate_limiter)
        while partial.position < entry.size:
            before = partial.position
            try:
                self._segment(partial, entry, report)
            except HashMismatch:
                raise
            except RetryableError as exc:
                self._failed(attempts, exc, partial, before)

    def _failed(self, attempts: Attempts, error: RetryableError, partial: PartialFile, before: int) -> None:
        try:
            attempts.failed(error, gained=max(0, partial.position - before))
        except RetriesExhausted as exc:
            raise TransferFailed(
                f"{error.why}, {exc.count} times in a row; {partial.position} bytes are kept",
                hint=error.hint if isinstance(error, Unreachable) else GO_ON,
            ) from exc

    def _segment(self, partial: PartialFile, entry: FileEntry, report: Report) -> None:
        self.rate_limiter.wait()
        stop = min(entry.size, partial.position + self.segment)
        span = ByteSpan(partial.position, stop, is_full=partial.position == 0 and stop == entry.size)
        with self.streamer.span(self.listing, entry, span) as (start, chunks):
            if start != partial.position:
                partial.restart()
            for chunk in chunks:
                partial.take(chunk)
                report(partial.position)
                self.rate_limiter.check()
        if partial.position < stop:
            raise RetryableError(f"the response ended {stop - partial.position} bytes early")

    def recheck(self, entry: FileEntry, path: Path, report: Report) -> str:
        """The hash of a file that already existed."""

        def watched(done: int) -> None:
            self.rate_limiter.check()
            report(done)

        return hash_file(path, entry, watched)

    def quarantine(self, path: Path, entry: FileEntry, got: str) -> None:
        """Move away a file of the cache that has another hash; IntegrityError if it must stay."""
        if self.settings.offline:
            raise damaged_offline(self.listing, entry, path, got)
        try:
            with self.cache.locked(entry):
                self.cache.quarantine(path, entry)
        except OSError as exc:
            raise IntegrityError(
                f"{_another(self.listing, entry, path, got)}, and it cannot be renamed: {exc.strerror or exc}",
                hint="set HF_HUB_CACHE to your own folder, or replace the file",
            ) from exc

    def disk_error(self, exc: OSError, entry: FileEntry) -> TransferFailed:
        why = exc.strerror or str(exc)
        if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            why = f"{why}, it has {entry.size} bytes"
        return TransferFailed(
            f"{entry.path}: the cache at {self.cache.root} fails: {why}",
            hint="free some space there, or set HF_HUB_CACHE to a folder with enough space",
        )


def damaged_offline(listing: ModelListing, entry: FileEntry, path: Path, got: str) -> IntegrityError:
    return IntegrityError(
        f"{_another(listing, entry, path, got)}, and HF_HUB_OFFLINE is set",
        hint="unset HF_HUB_OFFLINE and run the command again, which renames the file and downloads it again; or "
        "replace the file",
    )


def _another(listing: ModelListing, entry: FileEntry, path: Path, got: str) -> str:
    return f"{listing.model_id}: {entry.path}: {path} has {entry.kind} {got}, but the Hub says {entry.oid}"
