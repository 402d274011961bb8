"""The contents of the local Hub: repositories, their revisions and the bytes of their files.

A repository is a folder `ROOT/<org>/<name>/`, files as they are; `ROOT/<org>/<name>@<revision>/` is another
branch of it (`%2F` for a slash) and `.hub.json` inside contains its settings. Tests may also publish from
memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

SETTINGS_FILE: Final = ".hub.json"
LARGE_BYTES: Final = 10 * 1024 * 1024
LARGE_SUFFIXES: Final = frozenset(
    (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".model", ".zip")
)
CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Blob:
    """One file's bytes, with git's name for them; only large files have a `sha256`, as on the Hub."""

    size: int
    git_oid: str
    sha256: str | None
    source: Path | bytes

    @property
    def oid(self) -> str:
        return self.sha256 or self.git_oid

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        if isinstance(self.source, bytes):
            yield self.source[start:stop]
            return
        with self.source.open("rb") as file:
            file.seek(start)
            left = stop - start
            while left > 0 and (chunk := file.read(min(CHUNK, left))):
                left -= len(chunk)
                yield chunk


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of one commit; the commit's id is a digest of them."""

    commit: str
    files: Mapping[str, Blob]


@dataclass(slots=True)
class Settings:
    """`.hub.json`: read access. Tokens in `accepted` have accepted the conditions of the gate."""

    private: bool = False
    gated: bool = False
    accepted: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    xet: bool = False
    resolve_cache: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Repo:
    """A model repository: branches by name, and all its commits."""

    id: str
    settings: Settings = field(default_factory=Settings)
    branches: dict[str, Snapshot] = field(default_factory=dict)
    history: dict[str, Snapshot] = field(default_factory=dict)

    def publish(self, files: Mapping[str, Blob], branch: str = "main") -> Snapshot:
        stamp = json.dumps([self.id, sorted((path, blob.oid) for path, blob in files.items())])
        snapshot = Snapshot(hashlib.sha1(stamp.encode(), usedforsecurity=False).hexdigest(), dict(files))
        self.branches[branch] = snapshot
        self.history[snapshot.commit] = snapshot
        return snapshot

    def at(self, revision: str) -> Snapshot | None:
        branch = self.settings.tags.get(revision, revision)
        return self.branches.get(branch) or self.history.get(branch)


def blob_of(path: str, content: bytes) -> Blob:
    """A file from memory, large or small by the Hub's rule."""
    return _named(path, len(content), content, iter([content]))


@lru_cache(maxsize=4096)
def _blob_from_disk(path: Path, size: int, _mtime_ns: int) -> Blob:
    with path.open("rb") as file:
        return _named(path.name, size, path, iter(lambda: file.read(CHUNK), b""))


def _named(path: str, size: int, source: Path | bytes, chunks: Iterator[bytes]) -> Blob:
    large = size > LARGE_BYTES or Path(path).suffix in LARGE_SUFFIXES
    if not large:
        return Blob(size, _git_oid(size, chunks), None, source)
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    pointer = pointer_text(digest.hexdigest(), size).encode()
    return Blob(size, _git_oid(len(pointer), iter([pointer])), digest.hexdigest(), source)


def pointer_text(sha256: str, size: int) -> str:
    """What git itself stores for a large file."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"


def _git_oid(size: int, chunks: Iterator[bytes]) -> str:
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


class HubModels:
    """All the repositories of one local Hub; folders are read again on every request."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._repos: dict[str, Repo] = {}

    def add(self, repo: Repo) -> Repo:
        self._repos[repo.id] = repo
        return repo

    def find(self, repo_id: str) -> Repo | None:
        org, _, name = repo_id.partition("/")
        if self._root is not None and name and ".." not in repo_id and (self._root / org / name).is_dir():
            self._refresh(self._root / org, repo_id, name)
        return self._repos.get(repo_id)

    def scan(self) -> list[str]:
        """Hash everything now, so that the first request does not wait for it; returns the ids found."""
        if self._root is None:
            return sorted(self._repos)
        found = [f"{d.parent.name}/{d.name}" for d in sorted(self._root.glob("*/*")) if d.is_dir()]
        ids = [repo_id for repo_id in found if "@" not in repo_id and not repo_id.startswith(".")]
        return [repo.id for repo_id in ids if (repo := self.find(repo_id))]

    def large(self, sha256: str) -> Blob | None:
        """Any large file by its content, as a store behind signed URLs has it."""
        for repo in self._repos.values():
            for snapshot in repo.history.values():
                for blob in snapshot.files.values():
                    if blob.sha256 == sha256:
                        return blob
        return None

    def _refresh(self, org: Path, repo_id: str, name: str) -> None:
        repo = self._repos.setdefault(repo_id, Repo(repo_id))
        repo.settings = _settings(org / name / SETTINGS_FILE)
        for folder in (org / name, *org.glob(f"{name}@*")):
            branch = unquote(folder.name.partition("@")[2]) or "main"
            repo.publish(_files(folder), branch)


def _files(folder: Path) -> dict[str, Blob]:
    found: dict[str, Blob] = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).as_posix()
        if path.is_file() and relative != SETTINGS_FILE:
            status = path.stat()
            found[relative] = _blob_from_disk(path, status.st_size, status.st_mtime_ns)
    return found


def _settings(path: Path) -> Settings:
    if not path.is_file():
        return Settings()
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    for key in ("accepted", "readers"):
        found[key] = tuple(found.get(key, ()))
    return Settings(**found)
