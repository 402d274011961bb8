"""Headers of a tar archive, bounded: `tarfile` reads a long name, or the fields of PAX, into memory whole, whatever
size the archive claims.
"""

from __future__ import annotations

import tarfile
from typing import Any, Final

LONGEST: Final = 1 << 20
"""Bytes of such a header. A path has at most 4,096."""
_EXTENDED: Final = frozenset(
    {
        *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
        *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    }
)


class HeaderTooLong(tarfile.TarError):
    """A header that can only be meant to fill a reader's memory."""


class BoundedHeaders(tarfile.TarInfo):
    """For `tarfile.open(..., tarinfo=BoundedHeaders)`."""

    def _proc_member(self, archive: Any) -> Any:
        """Which tarfile offers to subclasses: before anything behind this block is read."""
        if self.type in _EXTENDED and self.size > LONGEST:
            raise HeaderTooLong(f"a header of {self.size} bytes; a path has at most 4,096")
        return super()._proc_member(archive)  # type: ignore[misc]
