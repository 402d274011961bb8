"""The models in a folder, in the layouts in which people have them.

- `models--ORG--NAME/` with `refs`, `snapshots` and `blobs`: the cache of huggingface_hub (HF_HOME/hub), in which `hf
  download` puts models. Files have their hashes as names, and commits are the Hub's.
- `ORG/NAME/`: files as they are, for example of `hf download ORG/NAME --local-dir DIR/ORG/NAME`, which leaves the
  hashes and the commit in `.cache/huggingface/download`. Other files are hashed once.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lmi_deploy.host.hash_cache import HashLedger
from lmi_deploy.hub.repositories import CHUNK, Blob, ModelRepository, hash_blob, is_large, large_blob

MODEL_ID: Final = re.compile(r"(?:[A-Za-z0-9_-][\w.-]*/)?[A-Za-z0-9_-][\w.-]*")
METADATA: Final = ".cache/huggingface/download"
_CACHED: Final = "models--"
_UNLISTED: Final = frozenset({".cache", ".git", "__pycache__"})
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_GIT_OID: Final = re.compile(r"[0-9a-f]{40}")
_FRESH: Final = 2.0
"""Seconds for which a folder that was read is taken as unchanged: a download asks many times a second."""


@dataclass(slots=True)
class ModelFolders:
    """The repositories under `root`, read again when they are asked for, so that new downloads appear."""

    root: Path
    hashes: HashLedger
    report: Callable[[str], None]
    _read: dict[str, tuple[float, ModelRepository]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _refused: set[Path] = field(default_factory=set)

    def ids(self) -> list[str]:
        found = set()
        for folder in _folders(self.root):
            if folder.name.startswith(_CACHED):
                if (folder / "snapshots").is_dir():
                    found.add(folder.name.removeprefix(_CACHED).replace("--", "/", 1))
            elif not folder.name.startswith((".", "datasets--", "spaces--")):
                found |= {f"{folder.name}/{model.name}" for model in _folders(folder) if is_model(model)}
                if is_model(folder):
                    found.add(folder.name)
        return sorted(name for name in found if MODEL_ID.fullmatch(name))

    def find(self, model_id: str) -> ModelRepository | None:
        """None without such a folder. Hashes files that have no known hash, which can take minutes."""
        if not MODEL_ID.fullmatch(model_id) or ".." in model_id:
            return None
        with self._lock:
            read_at, repository = self._read.get(model_id, (0.0, None))
            if repository is None or time.monotonic() - read_at > _FRESH:
                repository = self._repository(model_id)
                if repository is None:
                    self._read.pop(model_id, None)
                else:
                    self._read[model_id] = (time.monotonic(), repository)
            return repository

    def _repository(self, model_id: str) -> ModelRepository | None:
        cached = self.root / (_CACHED + model_id.replace("/", "--"))
        repository = ModelRepository(model_id)
        if (cached / "snapshots").is_dir():
            self._read_cache(repository, cached)
        elif is_model(folder := self.root / model_id):
            files = dict(self._files(folder, model_id))
            repository.publish(files, commit=_downloaded_commit(folder, files))
        return repository if any(snapshot.files for snapshot in repository.history.values()) else None

    def _read_cache(self, repository: ModelRepository, cached: Path) -> None:
        refs = {
            path.relative_to(cached / "refs").as_posix(): path.read_text("utf-8").strip()
            for path in (cached / "refs").rglob("*")
            if path.is_file()
        }
        for folder in _folders(cached / "snapshots"):
            files = dict(self._files(folder, repository.id))
            for branch in [name for name, commit in refs.items() if commit == folder.name] or [folder.name]:
                repository.publish(files, branch, folder.name)
        if "main" not in repository.branches and len(repository.history) == 1:
            # Downloaded by its commit: what else could `main` mean here?
            repository.branches["main"] = next(iter(repository.history.values()))

    def _files(self, folder: Path, model_id: str) -> Iterator[tuple[str, Blob]]:
        for path in sorted(folder.rglob("*")):
            relative = path.relative_to(folder)
            if not path.is_file() or _UNLISTED & set(relative.parts) or path.suffix == ".incomplete":
                continue
            if self._is_inside(path):
                name = relative.as_posix()
                yield name, self._blob(path, folder, name, model_id)

    def _is_inside(self, path: Path) -> bool:
        """Whether it is no link out of the root, which would give every file of this machine to the clients."""
        if (target := path.resolve()).is_relative_to(self.root.resolve()):
            return True
        if path not in self._refused:  # a folder is read every few seconds
            self._refused.add(path)
            self.report(
                f"warning: {path} is not served: a link out of {self.root}, to {target}; copy the file there"
            )
        return False

    def _blob(self, path: Path, folder: Path, name: str, model_id: str) -> Blob:
        size = path.stat().st_size
        known = _cached_hash(path) or _downloaded_hash(path, folder / METADATA / f"{name}.metadata")
        if _SHA256.fullmatch(known):
            return large_blob(known, size, path)
        if _GIT_OID.fullmatch(known):
            return Blob(size, known, None, path)
        return self._hashed(path, name, size, model_id)

    def _hashed(self, path: Path, name: str, size: int, model_id: str) -> Blob:
        status = path.stat()
        mark = f"hub:{path.resolve()}:{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"
        if is_large(name, size):
            if (known := self.hashes.get(mark)) is not None:
                return large_blob(known, size, path)
            self.report(f"hashing {model_id} {name}, once")
        with path.open("rb") as file:
            blob = hash_blob(name, size, path, iter(lambda: file.read(CHUNK), b""))
        if blob.sha256:
            self.hashes.add(mark, blob.sha256)
        return blob


def missing_shards(repository: ModelRepository) -> list[str]:
    """Weight files that an index of `main` names and that are not there: the download was interrupted."""
    snapshot = repository.at("main")
    if snapshot is None:
        return []
    missing = set()
    for path, blob in snapshot.files.items():
        if path.endswith((".safetensors.index.json", ".bin.index.json")):
            try:
                shards = set(json.loads(b"".join(blob.read(0, blob.size)))["weight_map"].values())
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
            folder = path.rpartition("/")[0]
            missing |= {f"{folder}/{shard}".lstrip("/") for shard in shards} - set(snapshot.files)
    return sorted(missing)


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []


def is_model(folder: Path) -> bool:
    """A model has files of its own; the folder of an organisation has only folders."""
    try:
        return any(path.is_file() and not path.name.startswith(".") for path in folder.iterdir())
    except OSError:
        return False


def _cached_hash(path: Path) -> str:
    """In the cache of huggingface_hub a file is a link to `blobs/HASH`."""
    blob = path.resolve() if path.is_symlink() else path
    return blob.name if blob.parent.name == "blobs" else ""


def _downloaded(metadata: Path) -> tuple[str, str, float] | None:
    """Commit, hash and time of a file of `--local-dir` (huggingface_hub, `_local_folder.py`, 1.0)."""
    try:
        commit, etag, saved_at = metadata.read_text("utf-8").split("\n")[:3]
        return commit, etag, float(saved_at)
    except (OSError, ValueError):
        return None


def _downloaded_hash(path: Path, metadata: Path) -> str:
    """Empty for a file that was changed after its download, by the rule of huggingface_hub itself (one second)."""
    found = _downloaded(metadata)
    return found[1] if found is not None and path.stat().st_mtime - 1 <= found[2] else ""


def _downloaded_commit(folder: Path, files: dict[str, Blob]) -> str:
    """The Hub's commit, if every file is of the same and unchanged; else empty."""
    commits = set()
    for name, blob in files.items():
        found = _downloaded(folder / METADATA / f"{name}.metadata")
        commits.add(found[0] if found is not None and found[1] == blob.oid else "")
    return commits.pop() if len(commits) == 1 else ""
