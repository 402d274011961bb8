"""Lines and server-sent events in bytes that arrive in any pieces. Pure."""

from __future__ import annotations


class LineDecoder:
    """The lines of a text, without their ends; empty ones are left out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line for line in map(bytes.strip, lines) if line]

    def close(self) -> list[bytes]:
        """The last line, if nothing ends it."""
        rest, self._rest = self._rest.strip(), b""
        return [rest] if rest else []


class EventDecoder:
    """The data of each server-sent event (WHATWG HTML, 9.2.6). What is no field of an event is taken as a line of its
    own: a server that fails in the middle writes plain text.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [event for line in lines for event in self._line(line.rstrip(b"\r"))]

    def close(self) -> list[bytes]:
        """What the stream ended with, though no empty line ended it."""
        rest, self._rest = self._rest.rstrip(b"\r"), b""
        return [*(self._line(rest) if rest else ()), *self._line(b"")]

    def _line(self, line: bytes) -> list[bytes]:
        if not line:
            event, self._data = b"\n".join(self._data), []
            return [event] if event else []
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field not in (b"", b"event", b"id", b"retry"):
            return [line.strip()]
        return []
