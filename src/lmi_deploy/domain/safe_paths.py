"""File names from untrusted sources: which of them may be written below a local folder."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable

MAX_SEGMENT = 255
MAX_PATH = 1024
"""Bytes: a file system's limit for one name, and S3's for a key."""


def check_relative_path(path: str) -> str | None:
    """Why `path` may not be used as a relative path with `/` between its parts; None when it may."""
    if not path:
        return "is empty"
    if path.startswith("/"):
        return "is absolute"
    return _bad_character(path) or _bad_segment(path)


def _bad_character(path: str) -> str | None:
    if "\\" in path:
        return "has a backslash"
    if "\0" in path:
        return "has a NUL"
    for character in path:
        if unicodedata.category(character) == "Cs":
            return "is not valid Unicode"
        if unicodedata.category(character) == "Cc":
            return f"has a control character (U+{ord(character):04X})"
    return None


def _bad_segment(path: str) -> str | None:
    for segment in path.split("/"):
        if not segment:
            return "has an empty part"
        if segment in (".", ".."):
            return f"has a part {segment!r}"
        if (length := len(segment.encode())) > MAX_SEGMENT:
            return f"has a part of {length} bytes, at most {MAX_SEGMENT}"
    if (length := len(path.encode())) > MAX_PATH:
        return f"is {length} bytes long, at most {MAX_PATH}"
    return None


def case_collisions(paths: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Groups of paths that would be one file on a case-insensitive file system (macOS), and files that are folders."""
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for path in paths:
        groups[_folded(path)].add(path)
    for key in list(groups):
        for above in _above(key):
            if above in groups:
                groups[above] |= groups[key]
    return tuple(sorted(tuple(sorted(group)) for group in groups.values() if len(group) > 1))


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _above(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts)))
