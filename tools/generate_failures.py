"""Write catalog/failures.json from tools/failures.json: sample lines become patterns, each with a literal to look for.

In tools/failures.json an entry holds log lines as they were seen, and, where the rule below would be too strict or too
loose, its own patterns (`match`). Run it after that file was edited; a test compares the two.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).with_name("failures.json")
TABLE = Path(__file__).resolve().parents[1] / "src" / "lmi_deploy" / "catalog" / "failures.json"
SHORTEST = 4
"""Characters of the literal by which lines are found before a pattern is tried."""

_EXCEPTION = re.compile(r"^[\w./]+(Error|Exception|Timeout|Warning): ")
_SENTENCE = re.compile(r"^(.{30,}?)[.!] .*$")
_VALUE = re.compile(r"\d|[/<>{}\[\]@\\…]|\.\.\.")
_KEPT = ("id", "where", "engine", "versions", "level", "cause", "remedy", "settings")
_RULES = ("frames", "given", "over", "unless", "source")


def table() -> dict[str, Any]:
    """The table as it ships."""
    written = json.loads(SAMPLES.read_text(encoding="utf-8"))
    return {
        "source": written["source"],
        "date": written["date"],
        "failures": [_entry(entry) for entry in written["failures"]],
        "noise": [_searched(pattern(each["line"])) for each in written["noise"]],
    }


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    patterns = entry.get("match") or [pattern(line) for line in entry["lines"]]
    kept = {key: entry[key] for key in _KEPT if key in entry}
    kept["patterns"] = [_searched(each) for each in dict.fromkeys(patterns)]
    return kept | {key: entry[key] for key in _RULES if key in entry}


def pattern(line: str) -> str:
    """A sample's first sentence as a regular expression: words stay, numbers, paths and blanks may differ."""
    words = _SENTENCE.sub(r"\1", _EXCEPTION.sub("", line)).split(" ")
    parts = [".*?" if _VALUE.search(word) else re.escape(word).replace("\\ ", " ") for word in words if word]
    text = re.sub(r"(\.\*\? )*\.\*\?", ".*?", " ".join(parts))
    return text.removeprefix(".*? ").removesuffix(" .*?").replace(" .*? ", " .*?")


def _searched(text: str) -> list[str]:
    literal = max(literals(text), key=len, default="")
    if len(literal) < SHORTEST:
        raise SystemExit(
            f"{text!r}: no literal of {SHORTEST} characters to look for; give it another `match`"
        )
    return [literal, text]


def literals(text: str) -> Iterator[str]:
    """The runs of plain characters that every match holds."""
    run, depth, at = "", 0, 0
    while at < len(text):
        plain, width = _character(text, at)
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        optional = text[at + width : at + width + 1] in ("?", "*", "{")
        if plain and not depth and not optional:
            run += plain
        else:
            yield run
            run = ""
        at += width
    yield run


def _character(text: str, at: int) -> tuple[str, int]:
    """The plain character at this place, or none, and how far the next one is."""
    if text[at] == "\\":
        return ("" if text[at + 1].isalnum() else text[at + 1]), 2
    if text[at] == "[":
        return "", text.index("]", at + 2) - at + 1
    return ("" if text[at] in ".^$*+?{}()|" else text[at]), 1


def main() -> None:
    """Rewrite the table."""
    text = json.dumps(table(), ensure_ascii=False, separators=(",", ":"))
    TABLE.write_text(text.replace('{"id":', '\n{"id":') + "\n", encoding="utf-8")
    print(f"{TABLE.name}: written", file=sys.stderr)


if __name__ == "__main__":
    main()
