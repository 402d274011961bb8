"""The port `Hub` on the Hugging Face Hub."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from urllib.parse import quote

from lmi_deploy.domain.content_hashes import oid_of
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.safe_paths import case_collisions
from lmi_deploy.errors import AccessError, IntegrityError, LmiError, NotFound, TransferFailed
from lmi_deploy.host.disk import free_space
from lmi_deploy.host.hash_cache import HashLedger
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.source import BytesRead
from lmi_deploy.sources.download_retry import (
    LOOK_UPS,
    Attempts,
    HashMismatch,
    RateLimiter,
    RetriesExhausted,
    RetryableError,
    Unreachable,
)
from lmi_deploy.sources.hub.api_connection import HubConnection
from lmi_deploy.sources.hub.cache import RepoCache
from lmi_deploy.sources.hub.errors import HubResource
from lmi_deploy.sources.hub.file_download import BAD_BYTES, SEGMENT, HubDownloader, damaged_offline
from lmi_deploy.sources.hub.file_listing import cached_listing, parse_listing, reject_unsafe_paths
from lmi_deploy.sources.hub.hub_settings import HubSettings
from lmi_deploy.sources.hub.range_headers import ByteSpan, open_span
from lmi_deploy.sources.hub.range_reader import RangeReader
from lmi_deploy.sources.hub.snapshot_download import SnapshotDownload
from lmi_deploy.sources.hub.socket_reader import SocketReader
from lmi_deploy.sources.hub.storage_connection import HttpClient
from lmi_deploy.sources.local_file_reader import fill_from
from lmi_deploy.sources.verified_download import FileRuns, VerifiedFiles, hash_file

Got = TypeVar("Got")
"""Attempts of a small request: the user waits for it."""


class HuggingFaceHub:
    """Reads go to the Hub (offline: to the cache); files are stored in the user's own cache.

    `ledger` is a file of lmi with the cached files that were hashed and found correct; without it every `fetch`
    hashes them.
    """

    def __init__(
        self, settings: HubSettings, clock: Clock, *, ledger: Path | None = None, random: Random | None = None
    ) -> None:
        self._settings = settings
        self._connection = HubConnection(settings)
        self._streamer = RangeReader(
            self._connection,
            HttpClient(settings),
            SocketReader(settings.stall_seconds),
            RateLimiter(clock, random or Random()),
        )
        self._clock = clock
        self._random = random or Random()
        self._ledger = ledger
        self._revisions: dict[tuple[str, str], str] = {}
        self.segment = SEGMENT
        self.free: Callable[[Path], int] = free_space

    def listing(self, model_id: str, revision: str) -> ModelListing:
        if self._settings.offline:
            return cached_listing(self._cache(model_id), model_id, revision)
        address = f"/api/models/{quote(model_id)}/revision/{quote(revision, safe='')}?blobs=true"
        subject = HubResource(model_id, revision)

        def send() -> Any:
            with self._connection.get(address, subject, {}) as reply:
                return _json(b"".join(reply.chunks))

        response = self._tried(subject, send)
        found = parse_listing(model_id, response, self._settings.endpoint, revision=revision)
        self._revisions[(model_id, found.commit)] = revision
        return found

    def read(
        self,
        listing: ModelListing,
        path: str,
        *,
        start: int = 0,
        length: int | None = None,
        refresh: bool = False,
    ) -> bytes:
        entry = self._entry(listing, path)
        stop = entry.size if length is None else min(entry.size, start + length)
        span = ByteSpan(start, stop, is_full=start == 0 and stop == entry.size)
        cached = self._cache(listing.model_id).complete_file(listing.commit, entry)
        doubted = span.is_full or (refresh and self._settings.offline)
        if cached is not None and (self._is_right(listing, entry, cached) if doubted else not refresh):
            return _slice(cached, span)
        self._refuse_offline(listing.model_id, [entry])
        subject = HubResource(listing.model_id, listing.commit, path)
        return self._tried(subject, lambda: self._read(listing, entry, span)) if start < stop else b""

    def read_into(
        self, listing: ModelListing, path: str, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        entry = self._entry(listing, path)
        cached = self._cache(listing.model_id).complete_file(listing.commit, entry)
        if cached is not None:
            yield from fill_from(cached, buffer, start=start)
            return
        self._refuse_offline(listing.model_id, [entry])
        try:
            yield from self._streamer.read_into(listing, entry, buffer, start=start)
        except RetriesExhausted as exc:
            raise self._gave_up(HubResource(listing.model_id, listing.commit, path), exc) from exc

    def _is_right(self, listing: ModelListing, entry: FileEntry, cached: Path) -> bool:
        got = hash_file(cached, entry, lambda _: None)
        if got != entry.oid and self._settings.offline:
            raise damaged_offline(listing, entry, cached, got)
        return got == entry.oid

    def _read(self, listing: ModelListing, entry: FileEntry, span: ByteSpan) -> bytes:
        found = bytearray()
        with open_span(self._connection, listing, entry, span) as (start, chunks):
            for chunk in chunks:
                found += chunk
                if start + len(found) >= span.stop:
                    break
        content = bytes(found[span.start - start : span.stop - start])
        if len(content) < span.stop - span.start:
            raise RetryableError(f"the response ended {span.stop - span.start - len(content)} bytes early")
        if span.is_full and (got := oid_of(content, entry.kind)) != entry.oid:
            raise HashMismatch(f"its {entry.kind} is {got}, but the Hub says {entry.oid}", got=got)
        return content

    def folder(self, listing: ModelListing) -> Path:
        return self._cache(listing.model_id).snapshot(listing.commit)

    def missing(self, listing: ModelListing, files: Sequence[FileEntry]) -> int:
        existing = sum(entry.size for entry in self._cached_files(listing, files))
        return sum(entry.size for entry in files) - existing

    def require_space(self, listing: ModelListing, files: Sequence[FileEntry]) -> None:
        existing = {entry.path for entry in self._cached_files(listing, files)}
        self._fetch(listing, "").require_space([entry for entry in files if entry.path not in existing])

    def fetch(
        self, listing: ModelListing, files: Sequence[FileEntry], *, key: str
    ) -> Generator[Event, None, Path]:
        _refuse_paths(listing, files)
        run = self._fetch(listing, key)
        cache = run.downloader.cache
        existing = self._cached_files(listing, files)
        wrong = {entry.path for entry in (yield from run.check(existing))}
        full = {entry.path for entry in existing} - wrong
        absent = [entry for entry in files if entry.path not in full]
        self._refuse_offline(listing.model_id, absent)
        if absent:
            yield from run.download(absent)
        run.link(files)
        cache.write_ref(
            self._revisions.get((listing.model_id, listing.commit), listing.commit), listing.commit
        )
        return cache.snapshot(listing.commit)

    def recheck(
        self, listing: ModelListing, files: Sequence[FileEntry], *, key: str
    ) -> Generator[Event, None, bool]:
        _refuse_paths(listing, files)
        wrong = yield from self._fetch(listing, key).check(self._cached_files(listing, files), refresh=True)
        return bool(wrong)

    def _fetch(self, listing: ModelListing, key: str) -> SnapshotDownload:
        rate_limiter = RateLimiter(self._clock, self._random, threading.Event())
        downloader = HubDownloader(
            self._streamer, listing, self._cache(listing.model_id), rate_limiter, self.segment
        )
        runs = FileRuns(listing, key, rate_limiter.stop)
        return SnapshotDownload(downloader, VerifiedFiles(HashLedger(self._ledger)), self.free, runs)

    @staticmethod
    def _entry(listing: ModelListing, path: str) -> FileEntry:
        entry = next((entry for entry in listing.files if entry.path == path), None)
        if entry is None:
            raise NotFound(
                f"{listing.model_id}: no file {path!r} at {listing.commit}",
                hint="check its spelling",
            )
        return entry

    def _cache(self, model_id: str) -> RepoCache:
        return RepoCache(self._settings.cache, model_id, symlinks=self._settings.symlinks)

    def _cached_files(self, listing: ModelListing, files: Sequence[FileEntry]) -> list[FileEntry]:
        cache = self._cache(listing.model_id)
        return [entry for entry in files if cache.complete_file(listing.commit, entry) is not None]

    def _refuse_offline(self, model_id: str, absent: Sequence[FileEntry]) -> None:
        if self._settings.offline and absent:
            raise NotFound(
                f"{model_id}: {absent[0].path} is not in the cache, and HF_HUB_OFFLINE is set",
                hint=f"unset HF_HUB_OFFLINE to download it into {self._settings.cache}",
                details=[entry.path for entry in absent[1:]],
            )

    def _tried(self, subject: HubResource, send: Callable[[], Got]) -> Got:
        attempts = Attempts(RateLimiter(self._clock, self._random), LOOK_UPS)
        while True:
            try:
                return send()
            except RetryableError as error:
                try:
                    attempts.failed(error)
                except RetriesExhausted as exc:
                    raise self._gave_up(subject, exc) from exc

    def _gave_up(self, subject: HubResource, exc: RetriesExhausted) -> LmiError:
        requested = f"{subject.model_id}: {subject.path}" if subject.path else subject.model_id
        if isinstance(exc.last, Unreachable):
            return AccessError(
                f"{self._settings.endpoint}: cannot be reached: {exc.last.why}", hint=exc.last.hint
            )
        if isinstance(exc.last, HashMismatch):
            return IntegrityError(f"{requested}: {exc.last.why}", hint=BAD_BYTES)
        return TransferFailed(
            f"{requested}: {exc.last.why}, {exc.count} times in a row", hint="try again later"
        )


def _refuse_paths(listing: ModelListing, files: Sequence[FileEntry]) -> None:
    reject_unsafe_paths(listing.model_id, [entry.path for entry in files])
    groups = case_collisions(entry.path for entry in files)
    if groups:
        raise IntegrityError(
            f"{listing.model_id}: {' and '.join(groups[0])} would be the same file on a case-insensitive disk",
            hint="exclude one of them with files.ignore",
        )


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _slice(path: Path, span: ByteSpan) -> bytes:
    with path.open("rb") as file:
        file.seek(span.start)
        return file.read(span.stop - span.start)
