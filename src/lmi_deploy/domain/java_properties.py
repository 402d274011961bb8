"""Java properties, as `java.util.Properties` reads and stores them (ISO-8859-1 with unicode escapes).

Source of the grammar: the Javadoc of java.util.Properties (Java 17), and the observed behaviour of the real server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"


def parse_properties(raw: bytes) -> dict[str, str]:
    """Key to value; a later duplicate wins. Raises ValueError on a malformed unicode escape, as Java does."""
    pairs: dict[str, str] = {}
    for line in _logical_lines(raw.decode("latin-1")):
        key, value = _split(line)
        pairs[_unescape(key)] = _unescape(value)
    return pairs


def write_line(key: str, value: str) -> str:
    """One `key=value` line that Java reads back as exactly these two strings."""
    return f"{_escape_key(key)}={escape_value(value)}"


def write_properties(pairs: Iterable[tuple[str, str]]) -> bytes:
    """A whole file: one pair a line, the order kept, a newline at the end."""
    return "".join(write_line(key, value) + "\n" for key, value in pairs).encode("latin-1")


def escape_value(value: str) -> str:
    """The value escaped only where Java needs it: backslash, leading blank, control, beyond Latin-1's printables."""
    body = "".join(_escape_char(char) for char in value)
    return "\\" + body if body[:1] == " " else body


def _escape_key(key: str) -> str:
    special = "".join("\\" + char if char in " :=" else _escape_char(char) for char in key)
    return "\\" + special if special[:1] in ("#", "!") else special


def _escape_char(char: str) -> str:
    named = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    if char in named:
        return named[char]
    if " " <= char <= "~":
        return char
    encoded = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{encoded[i]:02x}{encoded[i + 1]:02x}" for i in range(0, len(encoded), 2))


def _logical_lines(text: str) -> Iterator[str]:
    """Natural lines joined at odd trailing backslashes; comments and blank lines left out."""
    existing = ""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    for number, natural in enumerate(lines, start=1):
        stripped = natural.lstrip(_BLANK)
        if not existing and (not stripped or stripped[0] in "#!"):
            continue
        line = existing + stripped
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            existing = line[:-1]
            if number == len(lines):
                # Java takes a lone backslash at the end for a pair of empty texts, but not one before CR LF.
                if existing or not text.endswith("\r\n"):
                    yield existing
                return
            continue
        existing = ""
        yield line
    if existing:
        yield existing


def _split(line: str) -> tuple[str, str]:
    index = 0
    while index < len(line) and line[index] not in "=: \t\f":
        index += 2 if line[index] == "\\" else 1
    rest = line[index:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:index], rest


def _unescape(text: str) -> str:
    parts: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        index += 1
        if char != "\\":
            parts.append(char)
            continue
        escaped = text[index : index + 1]
        index += 1
        if escaped == "u":
            parts.append(_unicode(text[index : index + 4]))
            index += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    return _join_surrogates("".join(parts))


def _unicode(digits: str) -> str:
    if len(digits) != 4 or not all(c in "0123456789abcdefABCDEF" for c in digits):
        raise ValueError(f"malformed \\u escape: {digits!r}")
    return chr(int(digits, 16))


def _join_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
