"""The file downloads of the local Hub: `/<org>/<name>/resolve/...` and the signed URLs behind it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from aiohttp import web

from lmi_deploy.emulator.faults.middleware import FaultyResponse
from tests.support.hub.errors import Refusal, check_gate, revision_of, visible
from tests.support.hub.repos import Blob, Repo
from tests.support.hub.state import STATE, HubState

RESOLVE_CACHE: Final = "/api/resolve-cache/models/"
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")


async def resolve(request: web.Request) -> web.StreamResponse:
    """Small files come directly; large ones by a redirect to a signed URL, with their names in headers."""
    state = request.app[STATE]
    repo = visible(state, request)
    check_gate(state, request, repo)
    snapshot = revision_of(repo, request.match_info["revision"])
    blob = snapshot.files.get(request.match_info["path"])
    if blob is None:
        raise Refusal(404, "EntryNotFound", "Entry not found", snapshot.commit)
    headers = {"X-Repo-Commit": snapshot.commit, "Accept-Ranges": "bytes", "Cache-Control": "no-cache"}
    if blob.sha256 is None:
        headers["ETag"] = f'"{blob.git_oid}"'
        if repo.settings.resolve_cache and not request.path.startswith(RESOLVE_CACHE):
            return _to_resolve_cache(request, snapshot.commit, headers)
        return ranged(request, blob, headers)
    headers |= {"X-Linked-Size": str(blob.size), "X-Linked-Etag": f'"{blob.sha256}"'}
    if repo.settings.xet:
        headers |= _xet_headers(state, repo, snapshot.commit, blob)
    headers["Location"] = signed_address(state, blob, request.match_info["path"])
    return web.Response(status=302, text=f"Found. Redirecting to {headers['Location']}", headers=headers)


def _to_resolve_cache(request: web.Request, commit: str, headers: dict[str, str]) -> web.Response:
    """Small files of busy repositories: one more redirect, on the Hub itself, relative."""
    repo = f"{request.match_info['org']}/{request.match_info['name']}"
    headers["Location"] = f"{RESOLVE_CACHE}{repo}/{commit}/{quote(request.match_info['path'])}"
    return web.Response(
        status=307, text=f"Temporary Redirect. Redirecting to {headers['Location']}", headers=headers
    )


def _xet_headers(state: HubState, repo: Repo, commit: str, blob: Blob) -> dict[str, str]:
    token = f"{state.url}/api/models/{repo.id}/xet-read-token/{commit}"
    return {"X-Xet-Hash": (blob.sha256 or "")[::-1], "Link": f'<{token}>; rel="xet-auth"'}


def signed_address(state: HubState, blob: Blob, path: str) -> str:
    name = blob.sha256 or ""
    expires = int(state.clock()) + state.link_seconds
    disposition = quote(f'attachment; filename="{path.rsplit("/", 1)[-1]}"')
    return (
        f"{state.cdn_url}/cdn/{name}?Expires={expires}&Signature={state.sign(name, expires)}"
        f"&response-content-disposition={disposition}"
    )


async def cdn(request: web.Request) -> web.StreamResponse:
    """A signed URL: everyone who has it may read, until it expires; no token is checked."""
    state = request.app[STATE]
    name = request.match_info["sha256"]
    expires = request.query.get("Expires", "")
    good = expires.isdigit() and request.query.get("Signature") == state.sign(name, int(expires))
    if not good or state.clock() >= int(expires):
        why = "Request has expired" if good else "Access denied"
        text = f"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>{why}</Message></Error>"
        return web.Response(status=403, text=text, content_type="application/xml")
    blob = state.models.large(name)
    if blob is None:
        return web.Response(
            status=404, text="<Error><Code>NoSuchKey</Code></Error>", content_type="application/xml"
        )
    return ranged(request, blob, {"ETag": f'"{name}"', "Accept-Ranges": "bytes"})


def ranged(request: web.Request, blob: Blob, headers: dict[str, str]) -> web.StreamResponse:
    """The whole file, or the one requested range (If-Range is respected)."""
    requests = request.headers.get("Range")
    if_range = request.headers.get("If-Range")
    if requests is None or (if_range is not None and if_range != headers["ETag"]):
        return FaultyResponse(blob.read(0, blob.size), length=blob.size, headers=headers)
    span = _span(requests, blob.size)
    if span is None:
        return web.Response(status=416, headers=headers | {"Content-Range": f"bytes */{blob.size}"})
    start, stop = span
    headers = headers | {"Content-Range": f"bytes {start}-{stop - 1}/{blob.size}"}
    return FaultyResponse(blob.read(start, stop), length=stop - start, headers=headers, status=206)


def _span(requests: str, size: int) -> tuple[int, int] | None:
    match = _RANGE.fullmatch(requests.strip())
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        return (max(0, size - int(match[2])), size) if int(match[2]) and size else None
    start = int(match[1])
    stop = min(int(match[2]) + 1, size) if match[2] else size
    return (start, stop) if start < size and stop > start else None
