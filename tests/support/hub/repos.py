"""The contents of the local Hub: repositories, their revisions and the bytes of their files.

A repository is a folder `ROOT/<org>/<name>/`, files as they are; `ROOT/<org>/<name>@<revision>/` is another
branch of it (`%2F` for a slash) and `.hub.json` inside contains its settings. Tests may also publish from
memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from lmi_deploy.hub.repositories import CHUNK, Blob, ModelRepository, hash_blob

SETTINGS_FILE: Final = ".hub.json"


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
class Repo(ModelRepository):
    """A model repository with access settings."""

    settings: Settings = field(default_factory=Settings)

    @property
    def is_private(self) -> bool:
        return self.settings.private

    @property
    def is_gated(self) -> bool:
        return self.settings.gated

    @property
    def tags(self) -> Mapping[str, str]:
        return self.settings.tags

    def file_entry(self, path: str, blob: Blob) -> dict[str, Any]:
        # super() without arguments does not work in a class with slots.
        xet = {"xetHash": blob.sha256[::-1]} if blob.sha256 and self.settings.xet else {}
        return ModelRepository.file_entry(self, path, blob) | xet


@lru_cache(maxsize=4096)
def _blob_from_disk(path: Path, size: int, _mtime_ns: int) -> Blob:
    with path.open("rb") as file:
        return hash_blob(path.name, size, path, iter(lambda: file.read(CHUNK), b""))


def blob_of(path: str, content: bytes) -> Blob:
    """A file from memory."""
    return hash_blob(path, len(content), content, [content])


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
        # A hidden folder is a model that another process is still making, and will be gone.
        ids = [repo_id for repo_id in found if "@" not in repo_id and "/." not in f"/{repo_id}"]
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
