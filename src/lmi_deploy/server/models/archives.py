"""Models that are registered from an archive: extracted into a folder of the server, removed with the model.

An archive is untrusted input: it can write neither outside its folder nor more than fits on the disk.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from lmi_deploy.domain.tar_headers import BoundedHeaders, HeaderTooLong

_ARCHIVE = re.compile(r"\.(zip|tar|tar\.gz|tgz|tar\.bz2|tar\.z)$", re.IGNORECASE)
LEFT_FREE = 64 * 1024 * 1024
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)


class BadArchive(Exception):
    """It cannot be extracted, or may not be."""


def is_archive(path: Path) -> bool:
    """By its name, with the rules of DJL's FilenameUtils."""
    return _ARCHIVE.search(path.name) is not None and path.is_file()


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


class ModelArchives:
    """Folders below `root`, one for each archive that is in use."""

    def __init__(self, root: Path, *, free: Callable[[Path], int] = free_bytes) -> None:
        self._root = root
        self._free = free
        self._numbers = itertools.count(1)

    def extract(self, archive: Path) -> Path:
        """The model's folder; blocking. `BadArchive` leaves nothing behind."""
        folder = self._root / str(next(self._numbers))
        folder.mkdir(mode=0o700, parents=True)
        room = _Room(self._root, self._free(self._root))
        try:
            if _is_tar(archive):
                _untar(archive, folder, room)
            else:
                _unzip(archive, folder, room)
            _check_links(folder)
        except BaseException as exc:
            self.remove(folder)
            if isinstance(exc, _BROKEN):
                raise BadArchive(f"{archive} cannot be extracted: {exc}") from exc
            raise
        return _nested(folder)

    def remove(self, folder: Path) -> None:
        """Delete everything that was extracted with this model's folder; does nothing without an archive."""
        if folder.is_relative_to(self._root) and folder != self._root:
            shutil.rmtree(self._root / folder.relative_to(self._root).parts[0], ignore_errors=True)

    def clear(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)


class _Room:
    """Refuse content that does not fit on the disk before it is written."""

    def __init__(self, folder: Path, free: int) -> None:
        self._folder = folder
        self._free = max(free - LEFT_FREE, 0)
        self._taken = 0

    def take(self, size: int) -> None:
        self._taken += size
        if self._taken > self._free:
            raise BadArchive(
                f"the archive contains at least {self._taken} bytes, but only {self._free} are free in "
                f"{self._folder}: register the extracted folder instead"
            )


def _is_tar(archive: Path) -> bool:
    """As `tarfile.is_tarfile`, whose headers have no bound."""
    try:
        with tarfile.open(archive, tarinfo=BoundedHeaders):
            return True
    except HeaderTooLong:
        raise
    except tarfile.TarError:
        return False


def _untar(archive: Path, folder: Path, room: _Room) -> None:
    """Python's filter `data` refuses devices, and paths and links that lead outside.

    Links are created last: nothing is written through one.
    """
    links: list[tarfile.TarInfo] = []
    with tarfile.open(archive, "r:*", tarinfo=BoundedHeaders) as tar:
        for member in tar:
            if member.issym() or member.islnk():
                links.append(member)
                continue
            room.take(member.size)
            tar.extract(member, folder, filter="data")
        for member in links:
            tar.extract(member, folder, filter="data")


def _unzip(archive: Path, folder: Path, room: _Room) -> None:
    if not zipfile.is_zipfile(archive):
        raise BadArchive(f"{archive} is neither a tar nor a zip archive")
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            name, kind = PurePosixPath(info.filename), stat.S_IFMT(info.external_attr >> 16)
            if name.is_absolute() or ".." in name.parts:
                raise BadArchive(f"{archive} cannot be extracted: {info.filename} points outside of it")
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise BadArchive(
                    f"{archive} cannot be extracted: {info.filename} is neither a file nor a folder"
                )
            room.take(info.file_size)  # no more than that is read
            packed.extract(info, folder)


def _check_links(folder: Path) -> None:
    root = folder.resolve()
    for path in folder.rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise BadArchive(f"{path.relative_to(folder)} points outside of the archive")


def _nested(folder: Path) -> Path:
    """A single folder at the top is the model: DJL's `Utils.getNestedModelDir`."""
    found = [path for path in folder.iterdir() if not path.name.startswith(".")]
    with contextlib.suppress(ValueError):
        (only,) = found
        if only.is_dir() and not only.is_symlink():
            return only
    return folder
