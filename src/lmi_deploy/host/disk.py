"""The size of folders on disk, and the bytes that a deletion would free."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lmi_deploy.errors import DiskRefused, TransferFailed

_BLOCK = 512
"""The unit of st_blocks, independent of the file system's own block size."""
FILE_CHANGES: Final = "another program writes to it: run the same command again when that has finished"
"""The hint for a local file that is not as it was listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUse:
    """Bytes of real blocks; `freed` leaves out files with another hard link outside of the folder."""

    size: int
    freed: int


def disk_use(folder: Path) -> DiskUse:
    observed: dict[tuple[int, int], tuple[int, int]] = {}
    names: dict[tuple[int, int], int] = {}
    for found in _stats(folder):
        key = (found.st_dev, found.st_ino)
        observed[key] = (found.st_blocks * _BLOCK, found.st_nlink)
        names[key] = names.get(key, 0) + 1
    size = sum(blocks for blocks, _ in observed.values())
    freed = sum(blocks for key, (blocks, links) in observed.items() if names[key] >= links)
    return DiskUse(size=size, freed=freed)


def free_space(path: Path) -> int:
    """Bytes that a user may still write at the (possibly future) location of `path`."""
    return shutil.disk_usage(nearest(path)).free


def nearest(path: Path) -> Path:
    """`path`, or the first folder above it that exists."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """A disk that is full, read-only or without permission is a problem of the user's machine, and reported as such."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as exc:
        raise DiskRefused(
            f"{exc.filename or path}: disk error: {exc.strerror or exc}",
            hint="check the free space and the owner of the folder, or set LMI_STATE_HOME or LMI_CACHE_HOME to "
            "another folder",
        ) from exc


def _stats(folder: Path) -> Iterator[os.stat_result]:
    """Of regular files only: a folder's own link count says nothing. Files that vanish in the meantime are left out."""
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                yield from _stats(Path(entry.path))
            else:
                with suppress(OSError):
                    yield entry.stat(follow_symlinks=False)


def write_atomically(path: Path, text: str) -> None:
    """Temporary file, fsync, rename: a reader, or a kill at any line, sees the old text or the new one."""
    scratch = path.with_name(f"{path.name}.tmp")
    with scratch.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    scratch.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def unreadable(path: Path, reason: OSError) -> TransferFailed:
    """Of a file that was there when it was listed."""
    is_gone = isinstance(reason, FileNotFoundError)
    hint = FILE_CHANGES if is_gone else "check the file and its permissions"
    return TransferFailed(f"{path}: {reason.strerror or reason}", hint=hint)
