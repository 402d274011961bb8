"""The JSON API of the local Hub: `/api/models/...` and `/api/whoami-v2`."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from aiohttp import web

from tests.support.hub.errors import Refusal, check_token, revision_of, visible
from tests.support.hub.repos import Blob, Repo, Snapshot, pointer_text
from tests.support.hub.state import STATE, token_of

DAY_ONE: Final = "2024-01-01T00:00:00.000Z"


async def model(request: web.Request) -> web.Response:
    """`model_info`; with `blobs=true` with sizes and hashes of all files."""
    repo = visible(request.app[STATE], request)
    snapshot = revision_of(repo, request.match_info.get("revision", "main"))
    with_blobs = request.query.get("blobs", "").lower() in ("1", "true")
    siblings = [_sibling(path, blob, with_blobs) for path, blob in sorted(snapshot.files.items())]
    return web.json_response(_model(repo, snapshot) | {"siblings": siblings})


def _model(repo: Repo, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "_id": hashlib.sha1(repo.id.encode(), usedforsecurity=False).hexdigest()[:24],
        "id": repo.id,
        "modelId": repo.id,
        "author": repo.id.partition("/")[0],
        "sha": snapshot.commit,
        "lastModified": DAY_ONE,
        "createdAt": DAY_ONE,
        "private": repo.settings.private,
        "gated": "auto" if repo.settings.gated else False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "library_name": "transformers",
        "usedStorage": sum(blob.size for blob in snapshot.files.values()),
        "spaces": [],
    }


def _sibling(path: str, blob: Blob, with_blobs: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"rfilename": path}
    if with_blobs:
        found |= {"size": blob.size, "blobId": blob.git_oid}
        if blob.sha256:
            found["lfs"] = {"sha256": blob.sha256, "size": blob.size, "pointerSize": _pointer_size(blob)}
    return found


def _pointer_size(blob: Blob) -> int:
    return len(pointer_text(blob.sha256 or "", blob.size))


async def tree(request: web.Request) -> web.Response:
    """`list_repo_tree`, page by page, the next page in a Link header."""
    state = request.app[STATE]
    repo = visible(state, request)
    snapshot = revision_of(repo, request.match_info["revision"])
    folder = request.match_info.get("folder", "")
    recursive = request.query.get("recursive", "").lower() in ("1", "true")
    entries = _entries(repo, snapshot, folder, recursive)
    if folder and not entries:
        raise Refusal(404, "EntryNotFound", f"{folder} does not exist on {request.match_info['revision']!r}")
    start = int(request.query.get("cursor", "0"))
    stop = start + int(request.query.get("limit", state.page_size))
    headers = {}
    if stop < len(entries):
        onward = request.rel_url.update_query(cursor=str(stop))
        headers["Link"] = f'<{state.url}{onward}>; rel="next"'
    return web.json_response(entries[start:stop], headers=headers)


def _entries(repo: Repo, snapshot: Snapshot, folder: str, recursive: bool) -> list[dict[str, Any]]:
    prefix = f"{folder.strip('/')}/" if folder else ""
    found: dict[str, dict[str, Any]] = {}
    for path, blob in sorted(snapshot.files.items()):
        if not path.startswith(prefix):
            continue
        parts = path[len(prefix) :].split("/")
        for depth in range(1, len(parts) if recursive else min(len(parts), 2)):
            name = prefix + "/".join(parts[:depth])
            oid = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
            found.setdefault(name, {"type": "directory", "oid": oid, "size": 0, "path": name})
        if recursive or len(parts) == 1:
            found[path] = _file_entry(repo, path, blob)
    return list(found.values())


def _file_entry(repo: Repo, path: str, blob: Blob) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "oid": blob.git_oid, "size": blob.size, "path": path}
    if blob.sha256:
        entry["lfs"] = {"oid": blob.sha256, "size": blob.size, "pointerSize": _pointer_size(blob)}
        if repo.settings.xet:
            entry["xetHash"] = blob.sha256[::-1]
    return entry


async def paths_info(request: web.Request) -> web.Response:
    """`get_paths_info`: only the paths that exist."""
    repo = visible(request.app[STATE], request)
    snapshot = revision_of(repo, request.match_info["revision"])
    form = await request.post()
    expected = {str(path) for path in form.getall("paths", [])}
    found = [_file_entry(repo, path, blob) for path, blob in snapshot.files.items() if path in expected]
    return web.json_response(found)


async def refs(request: web.Request) -> web.Response:
    repo = visible(request.app[STATE], request)
    tags = {tag: snapshot.commit for tag in repo.settings.tags if (snapshot := repo.at(tag))}
    branches = {name: snapshot.commit for name, snapshot in repo.branches.items()}
    response: dict[str, Any] = {"converts": []}
    for kind, at, named in (("branches", "heads", branches), ("tags", "tags", tags)):
        response[kind] = [
            {"name": name, "ref": f"refs/{at}/{name}", "targetCommit": commit}
            for name, commit in named.items()
        ]
    if "include_prs" in request.query:
        response["pullRequests"] = []
    return web.json_response(response)


async def whoami(request: web.Request) -> web.Response:
    check_token(request.app[STATE], request)
    if token_of(request) is None:
        raise Refusal(401, "", "Invalid username or password.")
    access = {"displayName": "local", "role": "read"}
    return web.json_response(
        {"type": "user", "id": "0" * 24, "name": "local", "orgs": [], "auth": {"accessToken": access}}
    )


async def agent_harnesses(request: web.Request) -> web.Response:
    """huggingface_hub requests this before its first request, to complete its User-Agent: nothing is known."""
    return web.json_response({"standardEnvVars": [], "harnesses": {}})


async def auth_check(request: web.Request) -> web.Response:
    visible(request.app[STATE], request)
    return web.json_response({})


async def xet_token(request: web.Request) -> web.Response:
    """Where an xet client would get its token; there is no chunk store behind it."""
    visible(request.app[STATE], request)
    state = request.app[STATE]
    expires = int(state.clock()) + state.link_seconds
    return web.json_response({"accessToken": "local", "exp": expires, "casUrl": f"{state.url}/_cas"})
