"""The file downloads of a Hub: `/<model>/resolve/<revision>/<path>`, whole or in parts."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from lmi_deploy.hub.api import repository_of
from lmi_deploy.hub.refusal import Refusal, revision_of
from lmi_deploy.hub.repositories import CHUNK, Blob, Snapshot

RESOLVE: Final = "/{model:[^/]+(?:/[^/]+)?}/resolve/{revision}/{path:.+}"
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True, slots=True)
class FilePart:
    """The bytes from `start` to before `stop` that a request gets, with status and headers."""

    status: int
    start: int
    stop: int
    headers: Mapping[str, str]


async def resolve(request: web.Request) -> web.StreamResponse:
    """Every file comes from here, not by a redirect: a mirror has one address."""
    repository = await repository_of(request)
    snapshot = revision_of(repository, request.match_info["revision"])
    blob = file_of(request, snapshot)
    headers = file_headers(snapshot, blob)
    if blob.sha256 is not None:
        headers |= {"X-Linked-Size": str(blob.size), "X-Linked-Etag": f'"{blob.sha256}"'}
    part = requested_part(request, blob, headers)
    response = web.StreamResponse(status=part.status, headers=part.headers)
    response.content_type = "application/octet-stream"
    response.content_length = part.stop - part.start
    with contextlib.suppress(ConnectionError):  # the client has gone; it asks again for what it lacks
        await response.prepare(request)
        if request.method != "HEAD":
            await _send(response, blob, part)
        await response.write_eof()
    return response


async def _send(response: web.StreamResponse, blob: Blob, part: FilePart) -> None:
    chunks = blob.read(part.start, part.stop)
    left = part.stop - part.start
    if left <= CHUNK:
        for chunk in chunks:
            left -= len(chunk)
            await response.write(chunk)
    else:
        while (chunk := await asyncio.to_thread(next, chunks, b"")) != b"":
            left -= len(chunk)
            await response.write(chunk)
    if left:
        raise ConnectionResetError(f"the file is {left} bytes shorter than at the start of the request")


def file_of(request: web.Request, snapshot: Snapshot) -> Blob:
    blob = snapshot.files.get(request.match_info["path"])
    if blob is None:
        raise Refusal(404, "EntryNotFound", "Entry not found", snapshot.commit)
    return blob


def file_headers(snapshot: Snapshot, blob: Blob) -> dict[str, str]:
    return {
        "X-Repo-Commit": snapshot.commit,
        "Accept-Ranges": "bytes",
        "Cache-Control": "no-cache",
        "ETag": f'"{blob.oid}"',
    }


def requested_part(request: web.Request, blob: Blob, headers: Mapping[str, str]) -> FilePart:
    """The whole file, or the one requested range (If-Range is respected); status 416 for a range outside of it."""
    requested, if_range = request.headers.get("Range"), request.headers.get("If-Range")
    if requested is None or (if_range is not None and if_range != headers["ETag"]):
        return FilePart(200, 0, blob.size, headers)
    span = _span(requested, blob.size)
    if span is None:
        return FilePart(416, 0, 0, {**headers, "Content-Range": f"bytes */{blob.size}"})
    start, stop = span
    return FilePart(206, start, stop, {**headers, "Content-Range": f"bytes {start}-{stop - 1}/{blob.size}"})


def _span(requested: str, size: int) -> tuple[int, int] | None:
    match = _RANGE.fullmatch(requested.strip())
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        return (max(0, size - int(match[2])), size) if int(match[2]) and size else None
    start = int(match[1])
    stop = min(int(match[2]) + 1, size) if match[2] else size
    return (start, stop) if start < size and stop > start else None
