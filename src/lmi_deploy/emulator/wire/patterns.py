"""The regular expressions of AWS's models, which are Java's, as Python's `re` can run them."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import Final

_CLASS: Final = re.compile(r"\\p\{(\w+)\}")
_PLAIN: Final = {"ASCII": r"\x00-\x7f", "Print": r"\x20-\x7e", "Alnum": "a-zA-Z0-9", "Alpha": "a-zA-Z"}


def matches(pattern: str, text: str) -> bool:
    """Like Java's `String.matches`: the whole text must match. A pattern that cannot be compiled matches everything."""
    compiled = _compiled(pattern)
    return compiled is None or compiled.fullmatch(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    text = pattern.replace(r"\z", r"\Z").replace(r"[\w-_]", r"[\w\-_]")
    # Java writes a character beyond U+FFFF as two surrogates; Python has it as one.
    text = text.replace(r"\uD800\uDC00-\uDBFF\uDFFF", r"\U00010000-\U0010FFFF")
    try:
        return re.compile(_translated(text))
    except re.error:
        return None


def _translated(pattern: str) -> str:
    out, inside, at = [], False, 0
    for found in _CLASS.finditer(pattern):
        before = pattern[at : found.start()]
        inside = _is_inside(before, inside=inside)
        ranges = _ranges(found.group(1))
        out += [before, ranges if inside else f"[{ranges}]"]
        at = found.end()
    return "".join((*out, pattern[at:]))


def _is_inside(text: str, *, inside: bool) -> bool:
    """Whether the place after `text` is within a [class]."""
    for char in re.sub(r"\\.", "", text):
        inside = (inside or char == "[") and char != "]"
    return inside


@cache
def _ranges(name: str) -> str:
    """The characters of a Unicode category, as the inside of a class."""
    if name in _PLAIN:
        return _PLAIN[name]
    runs: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if not unicodedata.category(chr(code)).startswith(name):
            continue
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in runs)
