"""Query strings and form bodies, parsed like Netty's QueryStringDecoder and HttpPostStandardRequestDecoder.

The real server uses these two classes. tests/unit/server/netty.json has their results for many inputs.
"""

from __future__ import annotations

import re

from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http import multipart_form
from lmi_deploy.server.http.java_text import from_utf8
from lmi_deploy.server.http.multipart_part_headers import field_name, undecodable
from lmi_deploy.server.workers.djl_protocol import Entry

URLENCODED = "application/x-www-form-urlencoded"
MOST_PARAMETERS = 1024  # later parameters in a query are dropped

_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_BAD_ESCAPE_BYTE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_ESCAPES = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_ESCAPED_BYTES = re.compile(rb"(?:%[0-9a-fA-F]{2})+")
_PATH_END = re.compile("[?#]")
_PARAMETER_END = re.compile("[&;]")
_NO_AMPERSAND = re.compile(rb"[^&]")
_KEY_END = re.compile(rb"[=&]")
_VALUE_END = re.compile(rb"[&\r\n]")


def split_target(target: str) -> tuple[str, list[Entry]]:
    """Path (not decoded) and query entries of a request target; entries with the same name are grouped.

    `ErrorReply` 409 for an invalid escape in the path or in the query.
    """
    ended = _PATH_END.search(target)
    end = ended.start() if ended else len(target)
    if "%" in target:
        _check_escapes(target, 0, end)
    return target[:end], _query_entries(target, end + 1) if target[end : end + 1] == "?" else []


def _query_entries(target: str, start: int) -> list[Entry]:
    end = target.find("#", start)
    end = len(target) if end < 0 else end
    named: dict[str, list[Entry]] = {}
    count = 0
    starts = [start, *(found.end() for found in _PARAMETER_END.finditer(target, start, end))]
    for first, last in zip(starts, [*(started - 1 for started in starts[1:]), end], strict=True):
        while first < last and target[first] == "=":
            first += 1
        if first == last or count == MOST_PARAMETERS:
            continue
        count += 1
        equals = target.find("=", first, last)
        equals = last if equals < 0 else equals
        key = _component(target, first, equals)
        value = _component(target, equals + 1, last)
        named.setdefault(key, []).append((key, value.encode("utf-8", "replace")))
    return [entry for entries in named.values() for entry in entries]


def _component(text: str, start: int, end: int) -> str:
    part = text[start:end]
    if "%" in part:
        _check_escapes(text, start, end)
    return _unescaped(part)


def _unescaped(part: str) -> str:
    part = part.replace("+", " ")
    if "%" not in part:
        return part
    return _ESCAPES.sub(lambda run: from_utf8(bytes.fromhex(run[0].replace("%", ""))), part)


def _check_escapes(text: str, start: int, end: int) -> None:
    if bad := _BAD_ESCAPE.search(text, start, end):
        at = bad.start()
        why = f"invalid hex byte '{text[at + 1 : at + 3]}' at index {at + 1} of '{text}'"
        if at + 3 > end:
            why = f"unterminated escape sequence at index {at} of: {text}"
        raise ErrorReply(409, "IllegalArgumentException", why)


def form_entries(content_type: str | None, body: bytes) -> list[Entry] | None:
    """The entries of a form body; None when the body is not a form. `ErrorReply` 500 for an invalid form."""
    if not content_type:
        return None
    if content_type.startswith(multipart_form.KIND) and (
        boundary := multipart_form.boundary_of(content_type)
    ):
        return multipart_form.Form(boundary, body).entries()
    if content_type.partition(";")[0].lower() == URLENCODED:
        return _urlencoded(body, key_may_end=content_type == URLENCODED)
    return None


def _urlencoded(body: bytes, *, key_may_end: bool) -> list[Entry]:
    """`key_may_end`: whether a last key without a value counts. It does not where the type has parameters."""
    entries: list[Entry] = []
    at = 0
    while begun := _NO_AMPERSAND.search(body, at):
        at = begun.start()
        found = _KEY_END.search(body, at)
        if found is None and not key_may_end:
            break
        key = from_utf8(body[at : found.start() if found else len(body)])
        if "%" in key and _BAD_ESCAPE.search(key):
            raise undecodable(f"Bad string: '{key}'")
        key = _unescaped(key)
        at = found.end() if found else len(body)
        if found is not None and found[0] == b"=":
            name = field_name(key)
            value, at, more = _value(body, at)
            entries.append((name, value))
            if not more:
                break
        elif key:
            entries.append((field_name(key), b""))
        multipart_form.check_form(entries)
    else:
        at = len(body)
    return multipart_form.check_form(entries, left_over=len(body) - at)


def _value(body: bytes, start: int) -> tuple[bytes, int, bool]:
    """The value that begins at `start`, its end, and whether another field may follow: after a line break none does."""
    ended = _VALUE_END.search(body, start)
    if ended is None:
        return _field_value(body[start:]), len(body), False
    value, end, more = body[start : ended.start()], ended.end(), ended[0] == b"&"
    if ended[0] == b"\r" and end < len(body):
        if body[end] != 0x0A:
            raise undecodable("Bad end of line")
        end += 1
    return _field_value(value), end, more


def _field_value(raw: bytes) -> bytes:
    if b"%" in raw and (bad := _BAD_ESCAPE_BYTE.search(raw)):
        shown = from_utf8(raw)
        raise undecodable(f"Invalid hex byte at index '{bad.start()}' in string: '{shown}'")
    plain = raw.replace(b"+", b" ")
    if b"%" in plain:
        plain = _ESCAPED_BYTES.sub(
            lambda escapes: bytes.fromhex(escapes[0].replace(b"%", b"").decode()), plain
        )
    return from_utf8(plain).encode("utf-8", "replace")
