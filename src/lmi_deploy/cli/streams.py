"""stdout and stderr whose reader may disappear: `lmi up | true`, a closed terminal."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_CLOSED_ERRORS: Final = frozenset({errno.EPIPE, errno.ECONNRESET, errno.EIO, errno.ENXIO})
"""The errors of a pipe, a socket or a terminal without a reader."""


class Output(io.FileIO):
    """A stream of this process. Without a reader, a command that changes nothing stops (BrokenPipeError), and the
    output of any other is discarded: it continues to its end.
    """

    discards = False

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _CLOSED_ERRORS:
                raise
            if not Output.discards:
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return super().write(data)


def discard_when_closed() -> None:
    """From now on no write can fail because of a missing reader."""
    Output.discards = True


def open_outputs() -> None:
    """In the place of Python's own stdout and stderr, with their settings."""
    sys.stdout, sys.stderr = _reopened(sys.stdout), _reopened(sys.stderr)


def _reopened(stream: Any) -> Any:
    if not isinstance(stream, io.TextIOWrapper):
        return stream  # closed when we were started (`>&-`)
    raw = Output(stream.fileno(), "w", closefd=False)
    buffered = hasattr(stream.buffer, "raw")  # not with `python -u`
    return io.TextIOWrapper(
        io.BufferedWriter(raw) if buffered else raw,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
