"""Text as Java decodes it, for bytes where Python's own functions give another result."""

from __future__ import annotations

import codecs
import re

BLANKS = " \t\n\x0b\f\r"  # `\s` of java.util.regex
_TRIMMED = "".join(map(chr, range(0x21)))  # the characters that String.trim removes

# Java replaces an encoded surrogate as a whole, Python each of its bytes.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_CHARSET_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z+.:_-]*")


class IllegalCharset(Exception):
    """No name of a character set can look like this."""


class UnknownCharset(Exception):
    """A name of a character set that is not here."""


def from_utf8(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub("\ufffd".encode(), raw).decode("utf-8", "replace")


def decoded(raw: bytes, charset: str) -> str:
    return from_utf8(raw) if charset == "utf-8" else raw.decode(charset, "replace")


def trimmed(text: str) -> str:
    return text.strip(_TRIMMED)


def charset_named(name: str) -> str:
    """Python's name of a character set; `IllegalCharset` or `UnknownCharset` of the name that was given."""
    if not _CHARSET_NAME.fullmatch(name):
        raise IllegalCharset(name)
    try:
        found = codecs.lookup(name).name
        "".encode(found)  # not one of Python's codecs between bytes and bytes
    except LookupError as exc:
        raise UnknownCharset(name) from exc
    return found
