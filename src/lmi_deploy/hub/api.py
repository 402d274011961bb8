"""The JSON API of a Hub: `/api/models/...` and `/api/whoami-v2`."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Protocol

from aiohttp import web

from lmi_deploy.hub.refusal import Refusal, revision_of, token_of
from lmi_deploy.hub.repositories import Blob, ModelRepository, Snapshot

MODEL: Final = "/api/models/{model:[^/]+(?:/[^/]+)?}"
"""Old models, such as gpt2, have no organisation."""
_NO_DATE: Final = "2024-01-01T00:00:00.000Z"
"""A folder does not say when a model was made."""


class ServedModels(Protocol):
    """What the handlers ask."""

    page_size: int
    url: str
    """The address that clients use, for links to the next page."""

    async def visible(self, request: web.Request, model_id: str) -> ModelRepository:
        """Raises Refusal if it is not there or not for this client."""
        ...

    async def list_models(self) -> list[ModelRepository]: ...


HUB: Final = web.AppKey("hub", ServedModels)


def add_api(app: web.Application) -> None:
    add = app.router.add_get
    add("/api/whoami-v2", whoami)
    add("/api/agent-harnesses", agent_harnesses)
    add("/api/models", models)
    add(MODEL + "/revision/{revision}", model)
    add(MODEL + "/tree/{revision}", tree)
    add(MODEL + "/tree/{revision}/{folder:.+}", tree)
    app.router.add_post(MODEL + "/paths-info/{revision}", listed_paths)
    add(MODEL + "/refs", refs)
    add(MODEL + "/auth-check", auth_check)
    add(MODEL, model)


async def repository_of(request: web.Request) -> ModelRepository:
    return await request.app[HUB].visible(request, request.match_info["model"])


async def models(request: web.Request) -> web.Response:
    """`list_models`, by organisation and words of the id; the Hub's other filters are refused, not ignored."""
    unknown = set(request.query) - {"search", "author", "limit", "full", "sort", "direction"}
    if unknown:
        raise Refusal(400, "", f"this Hub cannot filter by {', '.join(sorted(unknown))}")
    words, author = request.query.get("search", "").lower().split(), request.query.get("author", "")
    found = [
        repository
        for repository in await request.app[HUB].list_models()
        if all(word in repository.id.lower() for word in words)
        and (not author or repository.id.startswith(f"{author}/"))
    ]
    limit = request.query.get("limit", "")
    shown = found[: int(limit)] if limit.isdigit() else found
    return web.json_response([_model(repository, revision_of(repository, "main")) for repository in shown])


async def model(request: web.Request) -> web.Response:
    """`model_info`; with `blobs=true` with sizes and hashes of all files."""
    repository = await repository_of(request)
    snapshot = revision_of(repository, request.match_info.get("revision", "main"))
    with_blobs = request.query.get("blobs", "").lower() in ("1", "true")
    siblings = [
        _sibling(repository, path, blob, with_blobs=with_blobs)
        for path, blob in sorted(snapshot.files.items())
    ]
    return web.json_response(_model(repository, snapshot) | {"siblings": siblings})


def _model(repository: ModelRepository, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "_id": hashlib.sha1(repository.id.encode(), usedforsecurity=False).hexdigest()[:24],
        "id": repository.id,
        "modelId": repository.id,
        "author": repository.id.partition("/")[0],
        "sha": snapshot.commit,
        "lastModified": _NO_DATE,
        "createdAt": _NO_DATE,
        "private": repository.is_private,
        "gated": "auto" if repository.is_gated else False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "library_name": "transformers",
        "usedStorage": snapshot.size,
    }


def _sibling(repository: ModelRepository, path: str, blob: Blob, *, with_blobs: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"rfilename": path}
    if with_blobs:
        found |= {"size": blob.size, "blobId": blob.git_oid}
        if (lfs := repository.file_entry(path, blob).get("lfs")) is not None:
            found["lfs"] = {"sha256": lfs["oid"], "size": lfs["size"], "pointerSize": lfs["pointerSize"]}
    return found


async def tree(request: web.Request) -> web.Response:
    """`list_repo_tree`, page by page, the next page in a Link header."""
    hub = request.app[HUB]
    repository = await repository_of(request)
    snapshot = revision_of(repository, request.match_info["revision"])
    folder = request.match_info.get("folder", "")
    recursive = request.query.get("recursive", "").lower() in ("1", "true")
    entries = _entries(repository, snapshot, folder, recursive=recursive)
    if folder and not entries:
        raise Refusal(404, "EntryNotFound", f"{folder} does not exist on {request.match_info['revision']!r}")
    start = _count(request, "cursor", 0)
    stop = start + _count(request, "limit", hub.page_size)
    headers = {}
    if stop < len(entries):
        onward = request.rel_url.update_query(cursor=str(stop))
        headers["Link"] = f'<{hub.url}{onward}>; rel="next"'
    return web.json_response(entries[start:stop], headers=headers)


def _count(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    if not text.isdigit():
        raise Refusal(400, "", f"{name}={text}: not a number")
    return int(text)


def _entries(
    repository: ModelRepository, snapshot: Snapshot, folder: str, *, recursive: bool
) -> list[dict[str, Any]]:
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
            found[path] = repository.file_entry(path, blob)
    return list(found.values())


async def listed_paths(request: web.Request) -> web.Response:
    """`get_paths_info`: only the paths that exist."""
    repository = await repository_of(request)
    snapshot = revision_of(repository, request.match_info["revision"])
    form = await request.post()
    expected = {str(path) for path in form.getall("paths", [])}
    found = [repository.file_entry(path, blob) for path, blob in snapshot.files.items() if path in expected]
    return web.json_response(found)


async def refs(request: web.Request) -> web.Response:
    repository = await repository_of(request)
    tags = {tag: snapshot.commit for tag in repository.tags if (snapshot := repository.at(tag))}
    branches = {name: snapshot.commit for name, snapshot in repository.branches.items()}
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
    await repository_of(request)
    return web.json_response({})
