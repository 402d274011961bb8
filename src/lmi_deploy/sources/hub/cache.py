"""The user's own Hub cache, in the layout of huggingface_hub: blobs by oid, snapshots of links, refs."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
from collections.abc import Generator
from pathlib import Path
from uuid import uuid4

from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.safe_paths import check_relative_path

_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# Made by lmi, in the layout of huggingface_hub.\n"


class RepoCache:
    """One model's folder in the cache. Paths must have passed `check_relative_path`."""

    def __init__(self, root: Path, model_id: str, *, symlinks: bool = True) -> None:
        self.root = root
        self._name = "--".join(["models", *model_id.split("/")])
        self._symlinks = symlinks
        self.quarantined: list[tuple[FileEntry, Path]] = []
        """Files that were moved away, and their new paths."""
        self.folder = root / self._name

    def snapshot(self, commit: str) -> Path:
        return self.folder / "snapshots" / commit

    def pointer(self, commit: str, entry: FileEntry) -> Path:
        return self.snapshot(commit) / entry.path

    def blob(self, entry: FileEntry) -> Path:
        return self.folder / "blobs" / entry.oid

    def partial(self, entry: FileEntry) -> Path:
        return self.folder / "blobs" / f"{entry.oid}.incomplete"

    def complete_file(self, commit: str, entry: FileEntry) -> Path | None:
        """The path of a file of the right size, in this snapshot or as a blob of another."""
        for path in (self.pointer(commit, entry), self.blob(entry)):
            if _size(path) == entry.size:
                return path
        return None

    def partial_size(self, entry: FileEntry) -> int:
        """Bytes that an earlier run left."""
        size = _size(self.partial(entry)) or 0
        return size if size <= entry.size else 0

    def prepare(self) -> None:
        (self.folder / "blobs").mkdir(parents=True, exist_ok=True)
        tag = self.root / "CACHEDIR.TAG"
        if not tag.exists():
            tag.write_text(_TAG, "utf-8")

    @contextlib.contextmanager
    def locked(self, entry: FileEntry) -> Generator[None]:
        """The lock that huggingface_hub takes for the same blob."""
        lock = importlib.import_module("huggingface_hub.utils").WeakFileLock
        file = self.root / ".locks" / self._name / f"{entry.oid}.lock"
        file.parent.mkdir(parents=True, exist_ok=True)
        with lock(file):
            yield

    def link(self, commit: str, entry: FileEntry) -> None:
        """Give the blob its place in the snapshot; a place that is taken rightly is left alone."""
        pointer = self.pointer(commit, entry)
        if _size(pointer) == entry.size:
            return
        pointer.parent.mkdir(parents=True, exist_ok=True)
        self.quarantine(pointer, entry)
        blob = self.blob(entry)
        if self._symlinks:
            with contextlib.suppress(OSError):
                pointer.symlink_to(os.path.relpath(blob, pointer.parent))
                return
        if not pointer.exists():
            # A file system without links: the file itself is moved there, as huggingface_hub does it.
            shutil.move(blob, pointer)

    def quarantine(self, path: Path, entry: FileEntry) -> None:
        """Move a wrong file out of the way of its name. Other programs use the cache too: the bytes are kept.

        For a link the blob of this folder is moved; a blob in another place stays there, and loses the link.
        """
        blob = self.blob(entry)
        if path.is_symlink():
            of_ours = path.resolve() == blob.resolve()
            path.unlink()
            path = blob if of_ours else path
        if path.is_file():
            quarantined = blob.with_suffix(".damaged")
            quarantined.parent.mkdir(parents=True, exist_ok=True)
            path.replace(quarantined)
            self.quarantined.append((entry, quarantined))

    def write_ref(self, revision: str, commit: str) -> None:
        """The commit of the branch or tag; skipped without a message if the cache is read-only."""
        if (
            revision == commit
            or check_relative_path(revision) is not None
            or self.read_ref(revision) == commit
        ):
            return
        ref = self.folder / "refs" / revision
        with contextlib.suppress(OSError):
            ref.parent.mkdir(parents=True, exist_ok=True)
            part = ref.with_name(f"{ref.name}.{uuid4().hex[:8]}.tmp")
            part.write_text(commit, "utf-8")
            part.replace(ref)

    def read_ref(self, revision: str) -> str | None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return (self.folder / "refs" / revision).read_text("utf-8").strip()
        return None


def _size(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return None
