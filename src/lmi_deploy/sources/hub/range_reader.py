"""Part of one file, from the Hub into a buffer: resumed inside it, every header checked, never more than requested."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote, urljoin, urlsplit

from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.ports.source import BytesRead
from lmi_deploy.sources.download_retry import Attempts, RateLimiter, RetryableError
from lmi_deploy.sources.hub.api_connection import MOST_OF_AN_ERROR, HubConnection, HubResponse
from lmi_deploy.sources.hub.errors import HubErrorResponse, HubResource, translate
from lmi_deploy.sources.hub.range_headers import ByteSpan, begin, open_span
from lmi_deploy.sources.hub.socket_reader import STEP, SocketReader
from lmi_deploy.sources.hub.storage_connection import FAILURES, HttpClient, OpenResponse

SKIPPED = 64 << 20
"""Maximum bytes that are read and discarded if a server ignores the range."""
FRESH = 1500.0
"""Seconds for which a signed address is used again: it is valid for an hour. It is stored only in memory."""
HOPS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(slots=True)
class RangeReader:
    """The shared state of all streamed reads: connections, signed addresses, and rate limits."""

    connection: HubConnection
    wire: HttpClient
    receiver: SocketReader
    rate_limiter: RateLimiter
    _addresses: dict[str, tuple[str, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read_into(
        self, listing: ModelListing, entry: FileEntry, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        """Raises RetriesExhausted after too many attempts in a row without a new byte."""
        attempts = Attempts(self.rate_limiter)
        done = 0
        while done < len(buffer):
            before = done
            try:
                self.rate_limiter.wait()
                for reached in self._attempt(listing, entry, buffer, start, done):
                    done = reached
                    yield BytesRead(done)
            except RetryableError as error:
                yield BytesRead(done, f"trying again: {error.why}")
                attempts.failed(error, gained=done - before)

    @contextmanager
    def span(
        self, listing: ModelListing, entry: FileEntry, span: ByteSpan
    ) -> Generator[tuple[int, Iterator[memoryview]]]:
        """The position of the first byte (0 if the range was ignored), and the bytes: each piece is valid until the
        next.
        """
        if not self.wire.serves(self.connection.settings.endpoint):
            with open_span(self.connection, listing, entry, span) as (start, chunks):
                yield start, map(memoryview, chunks)
            return
        opened, reply = self._open(listing, entry, span, refresh=True)
        try:
            yield begin(reply, entry, span), self._chunks(opened)
        finally:
            self.wire.end(opened)

    def _chunks(self, opened: OpenResponse) -> Iterator[memoryview]:
        # Here and not around the yield: the caller's own code may fail, too, and that is no network error.
        try:
            yield from self.receiver.chunks(opened.line, opened.response)
        except FAILURES as exc:
            raise self.wire.failure(exc) from exc

    def _attempt(
        self, listing: ModelListing, entry: FileEntry, buffer: memoryview, start: int, done: int
    ) -> Iterator[int]:
        """How far the buffer is filled, from `done` on."""
        span = ByteSpan(
            start + done, start + len(buffer), is_full=start + done == 0 and len(buffer) == entry.size
        )
        if not self.wire.serves(self.connection.settings.endpoint):
            yield from self._slowly(listing, entry, buffer, span, done)
            return
        opened, reply = self._open(listing, entry, span)
        try:
            first = begin(reply, entry, span)
            _skip(opened, span.start - first)
            for received in self.receiver.received(opened.line, opened.response, buffer[done:]):
                yield done + received
        except FAILURES as exc:
            raise self.wire.failure(exc) from exc
        finally:
            self.wire.end(opened)

    def _slowly(
        self, listing: ModelListing, entry: FileEntry, buffer: memoryview, span: ByteSpan, done: int
    ) -> Iterator[int]:
        """Through the vendor's client, which knows proxies."""
        with open_span(self.connection, listing, entry, span) as (first, chunks):
            ahead = _bounded(span.start - first)
            for chunk in chunks:
                part = memoryview(chunk)[ahead:][: len(buffer) - done]
                ahead -= min(ahead, len(chunk))
                buffer[done : done + len(part)] = part
                done += len(part)
                yield done
                if done == len(buffer):
                    return
        raise RetryableError(f"the response ended {len(buffer) - done} bytes early")

    def _open(
        self, listing: ModelListing, entry: FileEntry, span: ByteSpan, *, refresh: bool = False
    ) -> tuple[OpenResponse, HubResponse]:
        """The response with the bytes; a valid signed address is used first, unless `refresh`."""
        own = f"{self.connection.settings.endpoint}/{listing.model_id}/resolve/{listing.commit}/{quote(entry.path)}"
        known = None if refresh else self._known(own)
        url, opened, first = self._followed(known or own, span)
        other_location, response = self._is_other_host(url), opened.response
        if response.status >= 400:
            self._forget(own)
            refusal = HubErrorResponse(
                response.status, opened.headers, response.read(MOST_OF_AN_ERROR), other_location
            )
            self.wire.end(opened)
            subject = HubResource(listing.model_id, listing.commit, entry.path)
            raise translate(refusal, subject, self.connection.settings)
        if other_location and not known:
            self._remember(own, url)
        return opened, HubResponse(response.status, opened.headers, first, iter(()))

    def _followed(self, url: str, span: ByteSpan) -> tuple[str, OpenResponse, Mapping[str, str]]:
        """Follows redirects: the last address, its response, and the headers of the first."""
        first: Mapping[str, str] | None = None
        for _ in range(HOPS):
            opened = self.wire.get(url, self._headers(url, span))
            first = opened.headers if first is None else first
            if opened.response.status not in REDIRECTS:
                return url, opened, first
            url = urljoin(url, opened.headers.get("Location", ""))
            opened.response.read(MOST_OF_AN_ERROR)
            self.wire.end(opened)
        raise RetryableError(f"more than {HOPS} redirects")

    def _headers(self, url: str, span: ByteSpan) -> Mapping[str, str]:
        headers = {**self.connection.headers, "Accept-Encoding": "identity"}
        if self._is_other_host(url):
            headers.pop("Authorization", None)
        return headers if span.is_full else {**headers, "Range": f"bytes={span.start}-{span.stop - 1}"}

    def _is_other_host(self, url: str) -> bool:
        parts, own = urlsplit(url), urlsplit(self.connection.settings.endpoint)
        return (parts.scheme, parts.netloc) != (own.scheme, own.netloc)

    def _known(self, own: str) -> str | None:
        with self._lock:
            url, since = self._addresses.get(own, ("", 0.0))
            return url if url and self.rate_limiter.clock.monotonic() - since < FRESH else None

    def _remember(self, own: str, url: str) -> None:
        with self._lock:
            self._addresses[own] = (url, self.rate_limiter.clock.monotonic())

    def _forget(self, own: str) -> None:
        with self._lock:
            self._addresses.pop(own, None)


def _bounded(ahead: int) -> int:
    if ahead > SKIPPED:
        raise RetryableError(f"the server ignored the range: {ahead} bytes would come before it")
    return ahead


def _skip(opened: OpenResponse, ahead: int) -> None:
    left = _bounded(ahead)
    while left:
        chunk = opened.response.read(min(left, STEP))
        if not chunk:
            raise RetryableError("the response ended before the range began")
        left -= len(chunk)
