"""Which known failures rules of diagnosis were written from, and which were left out to measure them.

The split is by class, so that no near-duplicate of a sentence is in both parts: entries are of one class if their ids
begin with the same words, if one replaces the other (`over`), or if their lines or causes share most words. Each class
goes to one part by a hash of its first id and SEED: a new entry moves no other one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Final

SAMPLES: Final = Path(__file__).with_name("failures.json")
SEED: Final = "issue-20"
PARTS: Final = ("train", "left-out")
_SAME: Final = 0.5
"""Share of words in both, of the words in either, from which two texts are near-duplicates."""
Entry = Mapping[str, Any]


def failures(part: str) -> list[Entry]:
    """The entries of one part, in the order of the table."""
    return [entry for entry, is_left_out in _split() if is_left_out == (part == "left-out")]


@cache
def _split() -> list[tuple[Entry, bool]]:
    """Each entry, and whether it is left out."""
    written = json.loads(SAMPLES.read_text(encoding="utf-8"))["failures"]
    left_out = {each for key, group in _classes(written).items() if _is_left_out(key) for each in group}
    return [(entry, entry["id"] in left_out) for entry in written]


def noise(part: str) -> list[str]:
    """Harmless lines of one part."""
    written = json.loads(SAMPLES.read_text(encoding="utf-8"))["noise"]
    return [each["line"] for each in written if _is_left_out(each["line"]) == (part == "left-out")]


def _is_left_out(key: str) -> bool:
    return hashlib.sha256(f"{SEED} {key}".encode()).digest()[0] % 3 == 0


def _classes(entries: list[Entry]) -> dict[str, list[str]]:
    """The ids of each class, by the first of them."""
    root = {entry["id"]: entry["id"] for entry in entries}

    def find(name: str) -> str:
        while root[name] != name:
            name = root[name]
        return name

    for one, other in _pairs(entries):
        first, second = sorted((find(one), find(other)))
        root[second] = first
    groups: dict[str, list[str]] = {}
    for name in root:
        groups.setdefault(find(name), []).append(name)
    return groups


def _pairs(entries: list[Entry]) -> Iterator[tuple[str, str]]:
    words = {entry["id"]: [_words(text) for text in (entry["cause"], *entry["lines"])] for entry in entries}
    for one, other in combinations(entries, 2):
        first, second = one["id"], other["id"]
        linked = first in other.get("over", ()) or second in one.get("over", ())
        if linked or _stem(first) == _stem(second) or _alike(words[first], words[second]):
            yield first, second


def _stem(name: str) -> tuple[str, ...]:
    return tuple(name.split("-")[:2])


def _alike(ones: list[frozenset[str]], others: list[frozenset[str]]) -> bool:
    pairs = ((one, other) for one in ones for other in others if one and other)
    return any(len(one & other) / len(one | other) > _SAME for one, other in pairs)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z_]{4,}", text.lower()))
