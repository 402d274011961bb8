"""Suggest the known name that a mistyped one is closest to."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

_FEW = 16


def nearest(text: str, known: Sequence[str]) -> str:
    """The known name most similar to `text`, or nothing if none is."""
    if len(text) > 80:
        return ""
    lowered = {name.lower(): name for name in known}
    pairs = _bigrams(text.lower())
    # difflib looks closely and is slow: it gets the few names that share the most letters with the text.
    equal = heapq.nlargest(3, lowered, key=lambda name: 2 * len(pairs & _bigrams(name)) - len(name))
    # Among few candidates, two swapped letters count as a slip (costum, onw).
    cutoff = 0.65 if len(lowered) <= _FEW else 0.7
    close = difflib.get_close_matches(text.lower(), equal, n=1, cutoff=cutoff)
    return lowered[close[0]] if close else ""


@lru_cache(4096)
def _bigrams(text: str) -> frozenset[str]:
    return frozenset(map("".join, pairwise(f" {text} ")))


def suggestion_text(text: str, known: Sequence[str]) -> str:
    """`did you mean X?`, or nothing."""
    local = nearest(text, known)
    return f"did you mean {local}?" if local else ""
