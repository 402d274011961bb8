"""The files of a model: read from the Hub's response, or offline from the user's cache."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.safe_paths import check_relative_path
from lmi_deploy.errors import AccessError, IntegrityError, NotFound
from lmi_deploy.sources.hub.cache import RepoCache
from lmi_deploy.sources.verified_download import hash_file

COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def parse_listing(model_id: str, found: Any, endpoint: str, *, revision: str) -> ModelListing:
    """The model as the Hub's API describes it at a revision.

    Refused: an invalid response, another commit than a pinned one, and dangerous file names.
    """
    try:
        files = tuple(sorted((_entry(item) for item in found["siblings"]), key=lambda entry: entry.path))
        commit = str(found["sha"])
        if not COMMIT.fullmatch(commit):
            raise ValueError(f"sha: {commit[:60]!r}")
    except (KeyError, TypeError, ValueError) as exc:
        raise AccessError(
            f"{endpoint}: its response about {model_id} does not come from a Hub",
            hint="set HF_ENDPOINT to a Hugging Face Hub, and check that no proxy answers in its place",
            details=[f"{type(exc).__name__}: {exc}"],
        ) from exc
    _require_pinned(model_id, revision, commit, endpoint)
    reject_unsafe_paths(model_id, [entry.path for entry in files])
    tag = found.get("pipeline_tag")
    return ModelListing(
        model_id=model_id,
        commit=commit,
        files=files,
        gated=bool(found.get("gated")),
        pipeline_tag=str(tag) if tag else None,
    )


def _require_pinned(model_id: str, revision: str, commit: str, endpoint: str) -> None:
    """A commit is its content: a Hub, a mirror or a proxy that returns another one returns another model."""
    pinned = revision.lower()
    if COMMIT.fullmatch(pinned) and pinned != commit:
        raise IntegrityError(
            f"{model_id}: lmi requested commit {pinned}, but {endpoint} answered with commit {commit}",
            hint="nothing was downloaded. Check HF_ENDPOINT and the proxy: a cache may answer with another revision",
        )


def _entry(item: Mapping[str, Any]) -> FileEntry:
    large = item.get("lfs")
    size, path = int(item["size"]), str(item["rfilename"])
    if size < 0:
        raise ValueError(f"{path}: size {size}")
    if large:
        oid = str(large["sha256"])
        return FileEntry(path=path, size=size, oid=_checked(oid, _SHA256), kind="sha256")
    return FileEntry(path=path, size=size, oid=_checked(str(item["blobId"]), COMMIT), kind="git-sha1")


def _checked(oid: str, form: re.Pattern[str]) -> str:
    """The oid becomes a file name in the cache."""
    if not form.fullmatch(oid):
        raise ValueError(f"oid: {oid[:70]!r}")
    return oid


def reject_unsafe_paths(model_id: str, paths: list[str]) -> None:
    bad = [f"{path[:80]!r} {why}" for path in paths if (why := check_relative_path(path))]
    if bad:
        raise IntegrityError(
            f"{model_id}: {len(bad)} of its file names are unsafe: {bad[0]}",
            hint="nothing was downloaded. Do not use this model: regular models have no such names",
            details=bad[1:],
        )


def cached_listing(cache: RepoCache, model_id: str, revision: str) -> ModelListing:
    """The model as far as it is in the cache, for offline use."""
    commit = revision if COMMIT.fullmatch(revision) else cache.read_ref(revision)
    if commit is None or not COMMIT.fullmatch(commit) or not cache.snapshot(commit).is_dir():
        raise NotFound(
            f"{model_id}: revision {revision!r} is not in the cache at {cache.root}, and HF_HUB_OFFLINE is set",
            hint=f"unset HF_HUB_OFFLINE, or run on a machine with network access: hf download {model_id} --revision "
            f"{revision}",
        )
    files = tuple(sorted(_cached(cache.snapshot(commit)), key=lambda entry: entry.path))
    return ModelListing(model_id=model_id, commit=commit, files=files)


def _cached(snapshot: Path) -> Iterator[FileEntry]:
    for path in snapshot.rglob("*"):
        if path.is_file():
            yield _cached_entry(path, path.relative_to(snapshot).as_posix())


def _cached_entry(path: Path, relative: str) -> FileEntry:
    """A link names the blob, whose name is its oid; a file that is not a link is hashed."""
    size, name = path.stat().st_size, path.readlink().name if path.is_symlink() else ""
    if COMMIT.fullmatch(name):
        return FileEntry(path=relative, size=size, oid=name, kind="git-sha1")
    entry = FileEntry(path=relative, size=size, oid=name, kind="sha256")
    if _SHA256.fullmatch(name):
        return entry
    oid = hash_file(path, entry, lambda _: None)
    return FileEntry(path=relative, size=size, oid=oid, kind="sha256")
