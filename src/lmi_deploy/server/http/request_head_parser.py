"""Parse HTTP/1.1, as lenient and as strict as the real server's parser (Netty).

Written here instead of using a library: the behaviour of DJLServing that clients can see includes bare line feeds,
`HTTP/9.9`, folded headers, an ignored `Connection: close`, header order and letter case, and no library accepts all
of that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

LONGEST_LINE = 4096
MOST_HEADER_BYTES = 8192

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_LINE = re.compile(
    rf"({_TOKEN})[ \t\x0b\x0c\r]+(?![\x1c-\x1f])([^ \t\x0b\x0c\r]+)[ \t\x0b\x0c\r]+(HTTP/[0-9]\.[0-9])",
    re.IGNORECASE,
)
_NAME = re.compile(_TOKEN)
_BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_DIGITS = re.compile(r"[0-9]+")
_HEX = re.compile(r"[0-9a-fA-F]+")
_BLANK = (" ", "\t")
_CONTROL_OR_BLANK = "".join(map(chr, range(0x21)))
_LONGEST_BODY = 2**63 - 1  # Netty reads a Content-Length as a Java long, and the size of a chunk as an int
_LONGEST_CHUNK = 2**31 - 1


class MalformedRequest(Exception):
    """Not HTTP: answered with 400 and the connection closed. `request`: the part that could be parsed."""

    def __init__(self, message: str, request: ReceivedRequest | None = None) -> None:
        super().__init__(message)
        self.request = request


@dataclass(slots=True)
class ReceivedRequest:
    """One request as received: target undecoded, headers in order with the sender's letter case."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes = field(default=b"", repr=False)
    sized: bool = True
    version: str = "HTTP/1.1"
    _first: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._first = {name.lower(): value for name, value in reversed(self.headers)}

    def header(self, name: str) -> str | None:
        """The first header of that name, which is given in small letters."""
        return self._first.get(name)

    @property
    def repeats(self) -> bool:
        """Whether a header occurs more than once."""
        return len(self._first) < len(self.headers)

    @property
    def keeps_alive(self) -> bool:
        """Whether the client asks to keep the connection open; the server mostly ignores this."""
        stated = {word.strip() for word in (self.header("connection") or "").lower().split(",")}
        return "close" not in stated and (self.version != "HTTP/1.0" or "keep-alive" in stated)

    def without(self, name: str) -> ReceivedRequest:
        """The same request without headers of that name."""
        kept = [pair for pair in self.headers if pair[0].lower() != name]
        return ReceivedRequest(self.method, self.target, kept, self.body, self.sized, self.version)


def parse_head(head: bytes) -> ReceivedRequest:
    """A whole head, without the empty line at its end."""
    first, *lines = _lines(head)
    if len(first) > LONGEST_LINE:
        raise MalformedRequest("line too long")
    words = _LINE.fullmatch(first)
    if words is None:
        raise MalformedRequest(first)
    method, target, version = words.groups()
    headers: list[tuple[str, str]] = []
    try:
        if sum(map(len, lines)) > MOST_HEADER_BYTES:
            raise MalformedRequest("headers too long")
        for line in lines:
            folded = headers.pop() if line[:1] in _BLANK and headers else None
            headers.append(parse_header(line) if folded is None else _unfold(*folded, line))
    except MalformedRequest as exc:
        exc.request = ReceivedRequest(method, target, headers, version=version.upper())
        raise
    return ReceivedRequest(method, target, headers, version=version.upper())


def _lines(head: bytes) -> list[str]:
    return [line.removesuffix("\r") for line in head.decode("latin-1").split("\n")]


def check_request_start(have: bytes) -> None:
    """`MalformedRequest` as soon as an incomplete head can no longer become valid."""
    started, newline, rest = have.rpartition(b"\n")
    if newline:
        parse_head(started)
        left = MOST_HEADER_BYTES - sum(map(len, _lines(started)[1:]))
    else:
        left = LONGEST_LINE
    if len(rest) > left:
        raise MalformedRequest("line too long")


def parse_header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    value = value.strip(" \t")
    if not colon or not _NAME.fullmatch(name) or _BAD_VALUE.search(value):
        raise MalformedRequest(line)
    return name, value


def _unfold(name: str, value: str, line: str) -> tuple[str, str]:
    value = f"{value} {line.strip(_CONTROL_OR_BLANK)}"
    if value[0] == " " or _BAD_VALUE.search(value):
        raise MalformedRequest(line)
    return name, value


def is_chunked(request: ReceivedRequest) -> bool:
    """`MalformedRequest` for a coding that is not exactly `chunked`, once: two readers would see its end in
    two places."""
    if request.header("transfer-encoding") is None:
        return False
    codings = [value.lower() for name, value in request.headers if name.lower() == "transfer-encoding"]
    if codings != ["chunked"]:
        raise MalformedRequest(f"transfer-encoding {codings}", request)
    return True


def body_length(request: ReceivedRequest) -> int:
    """`MalformedRequest` for two Content-Length headers, even equal ones: two readers may interpret
    them differently.
    """
    if (stated := request.header("content-length")) is None:
        return 0
    twice = request.repeats and sum(name.lower() == "content-length" for name, _ in request.headers) > 1
    if twice or not _DIGITS.fullmatch(stated):
        raise MalformedRequest(f"content-length {stated}", request)
    return _bounded(stated, 10, _LONGEST_BODY)


def chunk_size(line: bytes) -> int:
    text = line.split(b";")[0].strip().decode("latin-1")
    if not _HEX.fullmatch(text):
        raise MalformedRequest(f"chunk size {text!r}")
    return _bounded(text, 16, _LONGEST_CHUNK)


def _bounded(digits: str, base: int, most: int) -> int:
    """The digits are counted before the number is parsed: parsing time grows with the square of their count."""
    digits = digits.lstrip("0") or "0"
    if len(digits) > len(str(most)) or int(digits, base) > most:
        raise MalformedRequest(f"a number of {len(digits)} digits, at most {most}")
    return int(digits, base)
