"""The file downloads of the local Hub: large files by a redirect to a signed URL, as on the real one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from aiohttp import web

from lmi_deploy.emulator.faults.middleware import FaultyResponse
from lmi_deploy.hub.files import file_headers, file_of, requested_part
from lmi_deploy.hub.refusal import revision_of
from lmi_deploy.hub.repositories import Blob
from tests.support.hub.access import check_gate
from tests.support.hub.repos import Repo
from tests.support.hub.state import STATE, HubState

RESOLVE_CACHE: Final = "/api/resolve-cache/models/"


async def resolve(request: web.Request) -> web.StreamResponse:
    """Small files come directly; large ones by a redirect to a signed URL, with their names in headers."""
    state = request.app[STATE]
    repo = await state.visible(request, request.match_info["model"])
    check_gate(state, request, repo)
    snapshot = revision_of(repo, request.match_info["revision"])
    blob = file_of(request, snapshot)
    headers = file_headers(snapshot, blob)
    if blob.sha256 is None:
        if repo.settings.resolve_cache and not request.path.startswith(RESOLVE_CACHE):
            return _to_resolve_cache(request, snapshot.commit, headers)
        return ranged(request, blob, headers)
    del headers["ETag"]
    headers |= {"X-Linked-Size": str(blob.size), "X-Linked-Etag": f'"{blob.sha256}"'}
    if repo.settings.xet:
        headers |= _xet_headers(state, repo, snapshot.commit, blob)
    headers["Location"] = signed_address(state, blob, request.match_info["path"])
    return web.Response(status=302, text=f"Found. Redirecting to {headers['Location']}", headers=headers)


def _to_resolve_cache(request: web.Request, commit: str, headers: dict[str, str]) -> web.Response:
    """Small files of busy repositories: one more redirect, on the Hub itself, relative."""
    path = quote(request.match_info["path"])
    headers["Location"] = f"{RESOLVE_CACHE}{request.match_info['model']}/{commit}/{path}"
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


async def xet_token(request: web.Request) -> web.Response:
    """Where an xet client would get its token; there is no chunk store behind it."""
    state = request.app[STATE]
    await state.visible(request, request.match_info["model"])
    expires = int(state.clock()) + state.link_seconds
    return web.json_response({"accessToken": "local", "exp": expires, "casUrl": f"{state.url}/_cas"})


def ranged(request: web.Request, blob: Blob, headers: Mapping[str, str]) -> web.StreamResponse:
    part = requested_part(request, blob, headers)
    if part.status == 416:
        return web.Response(status=416, headers=part.headers)
    chunks = blob.read(part.start, part.stop)
    return FaultyResponse(chunks, length=part.stop - part.start, headers=part.headers, status=part.status)
