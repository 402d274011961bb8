"""multipart/form-data as parsed by Netty's HttpPostMultipartRequestDecoder, which the real server uses.

Clients' errors (a part without a name, a missing end, bare line feeds) have the same result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http.java_text import (
    BLANKS,
    IllegalCharset,
    UnknownCharset,
    charset_named,
    decoded,
    trimmed,
)
from lmi_deploy.server.http.multipart_part_headers import (
    OF_ONE_FILE,
    PARTS_INSIDE,
    charset_of,
    check_size,
    file_charset_of,
    name_of,
    read_header,
    undecodable,
)
from lmi_deploy.server.workers.djl_protocol import Entry

KIND = "multipart/form-data"
MOST_FIELDS = 128
MOST_LEFT_OVER = 1024  # bytes of a form that belong to no field
MOST_HEADER_BYTES = (
    64 * 1024
)  # of a part; Netty has no limit, and a server that parses 64 MiB of them is blocked

_NO_CONTROL = re.compile(rb"[^\x00-\x20\x7f-\x9f]")
_LINE_END = re.compile(rb"\r?\n")
_CLOSED = re.compile(rb"--(?:\r\n|\n|(?!\r))")


@dataclass(frozen=True, slots=True)
class Boundary:
    """The text between two parts, with its hyphens, and the character set of the parts' headers."""

    delimiter: str
    charset: str = "utf-8"


def boundary_of(content_type: str) -> Boundary | None:
    """None for a type without a boundary among its first two parameters: its body is no form then."""
    _, first, second, *_ = [*content_type.split(";", 2), "", ""]
    first, second = first.strip(BLANKS), second.strip(BLANKS)
    if first[:8].lower() == "boundary":
        named, other = first, second
    elif second[:8].lower() == "boundary":
        named, other = second, first
    else:
        return None
    _, equals, text = named.partition("=")
    if not equals:
        raise undecodable("Needs a boundary value")
    if not text:
        raise ErrorReply(500, "StringIndexOutOfBoundsException", "String index out of range: 0")
    if trimmed(text) == '"':
        raise ErrorReply(500, "StringIndexOutOfBoundsException", "begin 1, end 0, length 1")
    if text[0] == '"' and trimmed(text)[-1] == '"':
        text = trimmed(text)[1:-1]
    return Boundary("--" + text, _header_charset(other))


def _header_charset(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    if not equals or name[:7].lower() != "charset":
        return "utf-8"
    try:
        return charset_named(value)
    except UnknownCharset as exc:
        raise ErrorReply(500, "UnsupportedCharsetException", value) from exc
    except IllegalCharset as exc:
        raise undecodable(f"java.nio.charset.IllegalCharsetNameException: {value}") from exc


def check_form(entries: list[Entry], *, left_over: int = 0) -> list[Entry]:
    """The entries; `ErrorReply` for a form that Netty finds too large: more fields, or bytes that belong to none."""
    if len(entries) > MOST_FIELDS:
        raise ErrorReply(500, "TooManyFormFieldsException", None)
    if left_over > MOST_LEFT_OVER:
        raise ErrorReply(500, "TooLongFormFieldException", None)
    return entries


class _Incomplete(Exception):
    """More bytes are needed."""


@dataclass(slots=True)
class Form:
    """Decodes one body, from `at` on."""

    boundary: Boundary
    body: bytes
    at: int = 0
    found: list[Entry] = field(default_factory=list)

    def entries(self) -> list[Entry]:
        """`ErrorReply` 500 where Netty throws. A part without an end is dropped, and so is everything after it."""
        try:
            while self._delimiter(self.boundary.delimiter):
                self._part({}, inside=None)
        except _Incomplete:
            pass
        return check_form(self.found, left_over=len(self.body) - self.at)

    def _delimiter(self, delimiter: str) -> bool:
        """Move behind the next delimiter; False when it is the closing one."""
        raw = delimiter.encode(self.boundary.charset, "replace")
        started = self.body.find(raw, self.at)
        if started < 0:
            raise _Incomplete
        end = started + len(raw)
        opened = _LINE_END.match(self.body, end)
        ended = opened or _CLOSED.match(self.body, end)
        if ended is None:
            raise _Incomplete
        self.at = ended.end()
        return opened is not None

    def _part(self, given: dict[str, str], *, inside: str | None) -> None:
        """`inside`: the delimiter of the parts inside a part, which have the name that it was `given`."""
        started = self.at
        attributes = dict(given)
        try:
            self._headers(attributes, inside=inside is not None)
        except _Incomplete:
            self.at = started
            raise
        delimiter = inside or self.boundary.delimiter
        if PARTS_INSIDE in attributes:
            mixed = attributes.pop(PARTS_INSIDE)
            while self._delimiter(mixed):
                self._part(attributes, inside=mixed)
                attributes = {name: value for name, value in attributes.items() if name not in OF_ONE_FILE}
        elif "filename" in attributes:
            charset, name = file_charset_of(attributes), name_of(attributes)
            content = self._content(delimiter, charset)
            check_size(attributes, len(content))
            self._add(name, content)
        elif inside is not None:
            raise undecodable("Filename not found")
        else:
            charset, name = charset_of(attributes), name_of(attributes)
            self._add(name, decoded(self._content(delimiter, charset), charset).encode("utf-8", "replace"))

    def _add(self, name: str, value: bytes) -> None:
        self.found.append((name, value))
        check_form(self.found)

    def _content(self, delimiter: str, charset: str) -> bytes:
        """The bytes up to the delimiter, which starts a line."""
        raw = delimiter.encode(charset, "replace")
        started = self.at
        if self.body.startswith(raw, started):
            return b""
        end = self.body.find(b"\n" + raw, started)
        self.at = end if end >= 0 else len(self.body)
        if end < 0:
            raise _Incomplete
        return self.body[started:end].removesuffix(b"\r")

    def _headers(self, attributes: dict[str, str], *, inside: bool) -> None:
        most = self.at + MOST_HEADER_BYTES
        while not (empty := _LINE_END.match(self.body, self.at)):
            started = _NO_CONTROL.search(self.body, self.at)
            end = self.body.find(b"\n", started.start()) if started else -1
            if started is None or end < 0:
                raise _Incomplete
            if end > most:
                raise ErrorReply(500, "TooLongFormFieldException", None)
            line = self.body[started.start() : end].removesuffix(b"\r")
            self.at = end + 1
            read_header(decoded(line, self.boundary.charset), attributes, inside=inside)
            if PARTS_INSIDE in attributes:
                return
        self.at = empty.end()
