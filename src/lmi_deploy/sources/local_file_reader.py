"""A file on this disk as a source of bytes for a transfer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.errors import TransferFailed
from lmi_deploy.host.disk import FILE_CHANGES, unreadable
from lmi_deploy.ports.source import BytesRead

_BLOCK = MIB
"""Report the progress this often, so that the hasher reads data still in the CPU cache."""


def fill_from(path: Path, buffer: memoryview, *, start: int) -> Iterator[BytesRead]:
    """Read directly into the buffer; a file that became shorter is reported."""
    done = 0
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(start)
            while done < len(buffer):
                count = file.readinto(buffer[done : done + _BLOCK])
                if not count:
                    raise TransferFailed(
                        f"{path}: it ends at byte {start + done}, but had {start + len(buffer)} bytes before",
                        hint=FILE_CHANGES,
                    )
                done += count
                yield BytesRead(done)
    except OSError as exc:
        raise unreadable(path, exc) from exc
