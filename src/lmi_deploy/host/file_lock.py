"""A file that one process holds at a time; the kernel releases it when its holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from lmi_deploy.host.disk import on_disk


@contextmanager
def file_lock(path: Path, *, wait: bool) -> Iterator[IO[str]]:
    """Hold `path` and delete it at the end; BlockingIOError if it is taken and `wait` is false.

    Any content at that time was left by a holder that was killed.
    """
    with on_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _open_locked(path, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        handle.seek(0)
        yield handle
    finally:
        path.unlink(missing_ok=True)
        handle.close()


def overwrite(lock_file: IO[str], text: str) -> None:
    """`text` is all that is in the file from now on."""
    # Not through the handle's own buffer, which would on close retry the write that a full disk refuses now.
    lock_file.truncate(0)
    os.write(lock_file.fileno(), text.encode())


def _open_locked(path: Path, how: int) -> IO[str]:
    while True:
        handle = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(handle, how)
        except BaseException:
            handle.close()
            raise
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(handle.fileno())):
                return handle
        # The former holder removed the file after we opened it: our open file no longer has a name.
        handle.close()
