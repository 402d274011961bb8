"""Part of one file at a commit, from the Hub: every header is checked before a byte is used."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.sources.download_retry import HashMismatch, RetryableError
from lmi_deploy.sources.hub.api_connection import HubConnection, HubResponse
from lmi_deploy.sources.hub.errors import HubResource

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """Bytes from `start` up to `stop`; `is_full` if that is the whole file and no range header is needed."""

    start: int
    stop: int
    is_full: bool = False


@contextmanager
def open_span(
    connection: HubConnection, listing: ModelListing, entry: FileEntry, span: ByteSpan
) -> Generator[tuple[int, Iterator[bytes]]]:
    """The position of the first byte (0 if the range was ignored), and the bytes."""
    address = f"/{listing.model_id}/resolve/{listing.commit}/{quote(entry.path)}"
    subject = HubResource(listing.model_id, listing.commit, entry.path)
    headers = {} if span.is_full else {"Range": f"bytes={span.start}-{span.stop - 1}"}
    with connection.get(address, subject, headers) as reply:
        yield begin(reply, entry, span), reply.chunks


def begin(reply: HubResponse, entry: FileEntry, span: ByteSpan) -> int:
    """The offset of a response's bytes, after a check that its headers are for this file and this range."""
    _check_name(reply, entry)
    return _start(reply, entry, span)


def _check_name(reply: HubResponse, entry: FileEntry) -> None:
    """The Hub names a large file by its sha256 before it redirects: a wrong name spares the transfer."""
    etag = reply.first.get("X-Linked-Etag", "").removeprefix("W/").strip('"')
    if entry.kind == "sha256" and _SHA256.fullmatch(etag) and etag != entry.oid:
        raise HashMismatch("the Hub offers other content than it listed", got=etag)


def _start(reply: HubResponse, entry: FileEntry, span: ByteSpan) -> int:
    if reply.status == 206:
        return _ranged_start(reply.headers.get("Content-Range", ""), entry, span)
    if reply.status != 200:
        raise RetryableError(f"the Hub answered {reply.status}")
    length = reply.headers.get("Content-Length", "")
    if length.isdigit() and "Content-Encoding" not in reply.headers and int(length) != entry.size:
        raise HashMismatch(f"the Hub offers {length} bytes, but listed {entry.size}")
    return 0


def _ranged_start(content_range: str, entry: FileEntry, span: ByteSpan) -> int:
    match = _CONTENT_RANGE.fullmatch(content_range.strip())
    if match is None:
        raise RetryableError(f"a range without a valid position (Content-Range: {content_range!r})")
    start, last, total = int(match[1]), int(match[2]), match[3]
    if total not in ("*", str(entry.size)):
        raise HashMismatch(f"the Hub offers {total} bytes, but listed {entry.size}")
    if start != span.start or last >= span.stop:
        raise RetryableError(
            f"the response has bytes {start}-{last}, but lmi requested {span.start}-{span.stop - 1}"
        )
    return start
