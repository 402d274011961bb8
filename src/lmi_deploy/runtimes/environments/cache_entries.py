"""Entries on disk, as the user sees them: listed with their sizes, and deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

from lmi_deploy.host.disk import disk_use, gigabytes
from lmi_deploy.ports.environments import CacheEntry


def folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


def entry(kind: str, path: Path, note: str, *, sizes: bool) -> CacheEntry:
    if not sizes:
        return CacheEntry(kind=kind, name=path.name, path=path, size=0, note=note)
    if path.is_file():
        return CacheEntry(kind=kind, name=path.name, path=path, size=path.stat().st_size, note=note)
    use = disk_use(path)
    shared = use.size - use.freed
    if shared > use.size // 10:
        note = f"{note}, " * bool(note) + f"{gigabytes(shared)} shared with uv's cache"
    return CacheEntry(kind=kind, name=path.name, path=path, size=use.size, note=note)


def remove_folder(folder: Path) -> int:
    if not folder.is_dir():
        return 0
    freed = disk_use(folder).freed
    shutil.rmtree(folder)
    return freed


def remove_file(path: Path) -> int:
    size = path.stat().st_size
    path.unlink()
    return size
