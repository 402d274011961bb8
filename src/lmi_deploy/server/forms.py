"""Query strings and form bodies, decoded as the real server's library does."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from lmi_deploy.server.refusals import Refusal
from lmi_deploy.server.wire import Entry

_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_NAME = re.compile(r'name="([^"]*)"|name=([^;\s]+)', re.IGNORECASE)
_BOUNDARY = re.compile(r'boundary="?([^";]+)"?', re.IGNORECASE)


def split_target(target: str) -> tuple[str, list[Entry]]:
    """Path and query entries of a request target; entries of one name stand together."""
    path, _, query = target.partition("?")
    return path, grouped(query_entries(query.split("#")[0]))


def query_entries(text: str) -> list[Entry]:
    """`Refusal` 409 for an escape that is none."""
    entries: list[Entry] = []
    for part in re.split("[&;]", text):
        name, _, value = part.partition("=")
        if name:
            entries.append((_plain(name).decode("utf-8", "replace"), _plain(value)))
    return entries


def grouped(entries: list[Entry]) -> list[Entry]:
    """The same entries by name, names in the order of their first occurrence."""
    order = {name: number for number, name in reversed(list(enumerate(name for name, _ in entries)))}
    return sorted(entries, key=lambda entry: order[entry[0]])


def _plain(text: str) -> bytes:
    if bad := _BAD_ESCAPE.search(text):
        at = text[bad.start() : bad.start() + 3]
        raise Refusal(
            409,
            "IllegalArgumentException",
            f"invalid hex byte '{at[1:]}' at index {bad.start() + 1} of '{text}'",
        )
    raw = unquote_to_bytes(text.replace("+", " ").encode("latin-1"))
    return raw.decode("utf-8", "replace").encode()


def form_entries(content_type: str | None, body: bytes) -> list[Entry] | None:
    """The entries of a form body; None when the body is no form."""
    kind = (content_type or "").lower()
    if kind.partition(";")[0].strip() == "application/x-www-form-urlencoded":
        return _urlencoded(body)
    if kind.startswith("multipart/form-data") and (found := _BOUNDARY.search(content_type or "")):
        return _multipart(found[1].strip().encode("latin-1"), body)
    return None


def _urlencoded(body: bytes) -> list[Entry]:
    text = body.decode("latin-1")
    if bad := _BAD_ESCAPE.search(text):
        at = text[bad.start() : bad.start() + 3]
        raise Refusal(500, "ErrorDataDecoderException", f"Bad string: '{at}'")
    entries: list[Entry] = []
    for part in text.split("&"):
        name, _, value = part.partition("=")
        if name:
            entries.append((_plain(name).decode("utf-8", "replace"), _plain(value)))
    return entries


def _multipart(boundary: bytes, body: bytes) -> list[Entry]:
    entries: list[Entry] = []
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary)
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            break
        lines, blank, value = piece.partition(b"\r\n\r\n")
        found = _NAME.search(_disposition(lines))
        if blank and found:
            entries.append((found[1] if found[1] is not None else found[2], value))
    return entries


def _disposition(lines: bytes) -> str:
    texts = lines.decode("utf-8", "replace").split("\r\n")
    return next((text for text in texts if text.lower().startswith("content-disposition:")), "")
