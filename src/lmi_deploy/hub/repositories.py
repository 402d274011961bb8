"""What a Hub serves: model repositories, their commits, and the bytes of their files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

LARGE_BYTES: Final = 10 * 1024 * 1024
LARGE_SUFFIXES: Final = frozenset(
    (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".model", ".zip")
)
"""Files that the Hub stores outside of git (LFS): those above 10 MiB, and those that `.gitattributes` names; these are
its defaults (huggingface.co/docs/hub/repositories-getting-started, read 2026-11-24).
"""
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
    """The files of one commit."""

    commit: str
    files: Mapping[str, Blob]

    @property
    def size(self) -> int:
        return sum(blob.size for blob in self.files.values())


@dataclass(slots=True)
class ModelRepository:
    """A model repository: branches and tags by name, and all its commits."""

    id: str
    branches: dict[str, Snapshot] = field(default_factory=dict)
    history: dict[str, Snapshot] = field(default_factory=dict)

    @property
    def is_private(self) -> bool:
        return False

    @property
    def is_gated(self) -> bool:
        return False

    @property
    def tags(self) -> Mapping[str, str]:
        """The branch or commit of each tag."""
        return {}

    def publish(self, files: Mapping[str, Blob], branch: str = "main", commit: str = "") -> Snapshot:
        """A new commit of the branch. Its id is the given one, else a digest of the files."""
        stamp = json.dumps([self.id, sorted((path, blob.oid) for path, blob in files.items())])
        commit = commit or hashlib.sha1(stamp.encode(), usedforsecurity=False).hexdigest()
        snapshot = Snapshot(commit, dict(files))
        self.branches[branch] = self.history[commit] = snapshot
        return snapshot

    def at(self, revision: str) -> Snapshot | None:
        name = self.tags.get(revision, revision)
        return self.branches.get(name) or self.history.get(name)

    def file_entry(self, path: str, blob: Blob) -> dict[str, Any]:
        """The file as the Hub's listings show it."""
        entry: dict[str, Any] = {"type": "file", "oid": blob.git_oid, "size": blob.size, "path": path}
        if blob.sha256:
            pointer_size = len(pointer_text(blob.sha256, blob.size))
            entry["lfs"] = {"oid": blob.sha256, "size": blob.size, "pointerSize": pointer_size}
        return entry


def hash_blob(path: str, size: int, source: Path | bytes, chunks: Iterable[bytes]) -> Blob:
    """The file with its hashes, large or small by the Hub's rule."""
    if not is_large(path, size):
        return Blob(size, _git_oid(size, chunks), None, source)
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return large_blob(digest.hexdigest(), size, source)


def large_blob(sha256: str, size: int, source: Path | bytes) -> Blob:
    """git itself has a short text for a large file, the pointer."""
    pointer = pointer_text(sha256, size).encode()
    return Blob(size, _git_oid(len(pointer), [pointer]), sha256, source)


def is_large(path: str, size: int) -> bool:
    return size > LARGE_BYTES or Path(path).suffix in LARGE_SUFFIXES


def pointer_text(sha256: str, size: int) -> str:
    """https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md"""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"


def _git_oid(size: int, chunks: Iterable[bytes]) -> str:
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()
