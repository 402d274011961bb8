"""The pages of the documentation: their links, and the blocks that a reader may copy.

An HTML comment before a block, invisible to readers, marks what a test does with it: `<!-- run -->` runs it and
expects exit code 0, `<!-- run: exit=2 -->` another one; `<!-- file: NAME -->` writes it to a file; `<!-- output
-->` expects each of its lines in the output of the block before, except for numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OUTSIDE = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md")
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^>]*?) -->\n)?^```(?P<language>[\w{}]*)\n(?P<text>.*?)^```$", re.M | re.S
)
_LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^(#{1,6}) (.+?)\s*$", re.M)


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    language: str
    mark: str
    text: str

    @property
    def kind(self) -> str:
        """`run`, `file`, `output`, or nothing."""
        return self.mark.partition(":")[0]

    @property
    def argument(self) -> str:
        return self.mark.partition(":")[2].strip()

    @property
    def exit_code(self) -> int:
        found = re.search(r"\bexit=(\d+)", self.argument)
        return int(found[1]) if found else 0


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    return tuple(
        Block(page, found["language"], found["mark"] or "", found["text"])
        for found in _BLOCK.finditer(page.read_text(encoding="utf-8"))
    )


def links(page: Path) -> list[str]:
    """The targets of its links, without those in code."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", text)) + _LINK.findall(
        "\n".join(re.findall(r"\[`[^`\n]*`[^\]\n]*\]\([^)\s]+\)", text))
    )


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that GitHub and the site generate for headings."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    created: set[str] = set()
    count: Counter[str] = Counter()
    for _, title in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        created.add(f"{slug}-{count[slug]}" if count[slug] else slug)
        count[slug] += 1
    return frozenset(created)


def shell_commands(text: str) -> Iterator[str]:
    """Each command of a script on a line of its own, continued lines joined."""
    for line in text.replace("\\\n", " ").splitlines():
        yield line.strip().removeprefix("$ ")
