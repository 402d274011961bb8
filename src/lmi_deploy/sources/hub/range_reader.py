"""Part of one file, from the Hub into a buffer: resumed inside of it, every header checked, never more than asked."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote, urljoin, urlsplit

from lmi_deploy.domain.facts import FileEntry, ModelListing
from lmi_deploy.ports.source import Arrived
from lmi_deploy.sources.hub.connection import MOST_OF_AN_ERROR, Connection, Reply
from lmi_deploy.sources.hub.errors import Refusal, Subject, translate
from lmi_deploy.sources.hub.http_client import FAILURES, Opened, Wire
from lmi_deploy.sources.hub.ranges import Span, begin, open_span
from lmi_deploy.sources.hub.retry import Attempts, Broken, Pace
from lmi_deploy.sources.hub.socket_reader import STEP, Receiver

SKIPPED = 64 << 20
"""Bytes that are read and thrown away at most, where a server ignores the range."""
FRESH = 1500.0
"""Seconds for which a signed address is used again: it is good for an hour. It is kept in memory alone."""
HOPS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(slots=True)
class Streamer:
    """What all streamed reads have in common: connections, signed addresses, and the waiting of rate limits."""

    connection: Connection
    wire: Wire
    receiver: Receiver
    pace: Pace
    _addresses: dict[str, tuple[str, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fill(
        self, listing: ModelListing, entry: FileEntry, buffer: memoryview, *, start: int
    ) -> Iterator[Arrived]:
        """Raises GaveUp once attempts in a row have brought nothing."""
        attempts = Attempts(self.pace)
        done = 0
        while done < len(buffer):
            before = done
            try:
                self.pace.wait()
                for reached in self._attempt(listing, entry, buffer, start, done):
                    done = reached
                    yield Arrived(done)
            except Broken as broken:
                yield Arrived(done, f"trying again: {broken.why}")
                attempts.failed(broken, gained=done - before)

    @contextmanager
    def span(
        self, listing: ModelListing, entry: FileEntry, span: Span
    ) -> Generator[tuple[int, Iterator[memoryview]]]:
        """Where the bytes begin (0 where the range was ignored), and the bytes: each piece is good until the next."""
        if not self.wire.serves(self.connection.settings.endpoint):
            with open_span(self.connection, listing, entry, span) as (start, chunks):
                yield start, map(memoryview, chunks)
            return
        opened, reply = self._open(listing, entry, span, anew=True)
        try:
            yield begin(reply, entry, span), self._pieces(opened)
        finally:
            self.wire.end(opened)

    def _pieces(self, opened: Opened) -> Iterator[memoryview]:
        # Here and not around the yield: what the caller does with a piece may fail, too, and that is no network's.
        try:
            yield from self.receiver.pieces(opened.line, opened.answer)
        except FAILURES as exc:
            raise self.wire.failure(exc) from exc

    def _attempt(
        self, listing: ModelListing, entry: FileEntry, buffer: memoryview, start: int, done: int
    ) -> Iterator[int]:
        """How far the buffer is filled, from `done` on."""
        span = Span(start + done, start + len(buffer), whole=start + done == 0 and len(buffer) == entry.size)
        if not self.wire.serves(self.connection.settings.endpoint):
            yield from self._slowly(listing, entry, buffer, span, done)
            return
        opened, reply = self._open(listing, entry, span)
        try:
            first = begin(reply, entry, span)
            _skip(opened, span.start - first)
            for came in self.receiver.received(opened.line, opened.answer, buffer[done:]):
                yield done + came
        except FAILURES as exc:
            raise self.wire.failure(exc) from exc
        finally:
            self.wire.end(opened)

    def _slowly(
        self, listing: ModelListing, entry: FileEntry, buffer: memoryview, span: Span, done: int
    ) -> Iterator[int]:
        """Through the vendor's client, which knows proxies."""
        with open_span(self.connection, listing, entry, span) as (first, chunks):
            ahead = _bounded(span.start - first)
            for chunk in chunks:
                piece = memoryview(chunk)[ahead:][: len(buffer) - done]
                ahead -= min(ahead, len(chunk))
                buffer[done : done + len(piece)] = piece
                done += len(piece)
                yield done
                if done == len(buffer):
                    return
        raise Broken(f"the answer ended {len(buffer) - done} bytes early")

    def _open(
        self, listing: ModelListing, entry: FileEntry, span: Span, *, anew: bool = False
    ) -> tuple[Opened, Reply]:
        """The answer that has the bytes; a signed address that is fresh is asked first, but for `anew`."""
        own = f"{self.connection.settings.endpoint}/{listing.model_id}/resolve/{listing.commit}/{quote(entry.path)}"
        known = None if anew else self._known(own)
        url, opened, first = self._followed(known or own, span)
        elsewhere, answer = self._is_elsewhere(url), opened.answer
        if answer.status >= 400:
            self._forget(own)
            refusal = Refusal(answer.status, opened.headers, answer.read(MOST_OF_AN_ERROR), elsewhere)
            self.wire.end(opened)
            subject = Subject(listing.model_id, listing.commit, entry.path)
            raise translate(refusal, subject, self.connection.settings)
        if elsewhere and not known:
            self._remember(own, url)
        return opened, Reply(answer.status, opened.headers, first, iter(()))

    def _followed(self, url: str, span: Span) -> tuple[str, Opened, Mapping[str, str]]:
        """Through redirects: the last address, its answer, and the headers of the first."""
        first: Mapping[str, str] | None = None
        for _ in range(HOPS):
            opened = self.wire.get(url, self._headers(url, span))
            first = opened.headers if first is None else first
            if opened.answer.status not in REDIRECTS:
                return url, opened, first
            url = urljoin(url, opened.headers.get("Location", ""))
            opened.answer.read(MOST_OF_AN_ERROR)
            self.wire.end(opened)
        raise Broken(f"more than {HOPS} redirects")

    def _headers(self, url: str, span: Span) -> Mapping[str, str]:
        headers = {**self.connection.headers, "Accept-Encoding": "identity"}
        if self._is_elsewhere(url):
            headers.pop("Authorization", None)
        return headers if span.whole else {**headers, "Range": f"bytes={span.start}-{span.stop - 1}"}

    def _is_elsewhere(self, url: str) -> bool:
        parts, own = urlsplit(url), urlsplit(self.connection.settings.endpoint)
        return (parts.scheme, parts.netloc) != (own.scheme, own.netloc)

    def _known(self, own: str) -> str | None:
        with self._lock:
            url, since = self._addresses.get(own, ("", 0.0))
            return url if url and self.pace.clock.monotonic() - since < FRESH else None

    def _remember(self, own: str, url: str) -> None:
        with self._lock:
            self._addresses[own] = (url, self.pace.clock.monotonic())

    def _forget(self, own: str) -> None:
        with self._lock:
            self._addresses.pop(own, None)


def _bounded(ahead: int) -> int:
    if ahead > SKIPPED:
        raise Broken(f"the range was ignored: {ahead} bytes would come before it")
    return ahead


def _skip(opened: Opened, ahead: int) -> None:
    left = _bounded(ahead)
    while left:
        piece = opened.answer.read(min(left, STEP))
        if not piece:
            raise Broken("the answer ended before the range began")
        left -= len(piece)
