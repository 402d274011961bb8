"""The pages of the documentation, which travel with the package, and a search in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from lmi_deploy.catalog.package_files import docs
from lmi_deploy.domain.documentation import DocPage, PageHit

SECTIONS: Final = ("", "how-to", "reference", "explanation")
"""Folders, in the order of the list; the first is that of the pages at the top."""
_LEFT_OUT: Final = ("index",)
_HEADING: Final = re.compile(r"^(#{1,4}) +(.+?)\s*$", re.MULTILINE)
_COMMON: Final = frozenset(
    {
        *("a", "an", "and", "at", "by", "for", "from", "how", "i", "in", "is", "it", "my", "no", "not"),
        *("of", "on", "or", "the", "to", "what", "when", "why", "with"),
    }
)
"""Words of a question that no page is about."""
_ENDINGS: Final = ("ically", "ally", "ing", "ies", "ed", "es", "ly", "e", "s")
_MARK: Final = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
"""Comments for the tests of the documentation."""


@cache
def doc_pages(folder: Path | None = None) -> tuple[DocPage, ...]:
    root = folder or docs()
    found = []
    for section in SECTIONS:
        for path in sorted(Path(root, section).glob("*.md")):
            if path.stem not in _LEFT_OUT:
                text = _MARK.sub("", path.read_text(encoding="utf-8"))
                heading = _HEADING.search(text)
                title = heading[2] if heading else path.stem
                found.append(DocPage(name=path.stem, section=section, title=title, text=text))
    return tuple(found)


def find_page(name: str) -> DocPage | None:
    """By its name, its path or its address: `recipe`, `reference/recipe`, `docs/reference/recipe.md`."""
    stem = name.partition("#")[0].removesuffix(".md").rpartition("/")[2].lower()
    return next((page for page in doc_pages() if page.name == stem), None)


def search_pages(words: Sequence[str]) -> tuple[PageHit, ...]:
    """Parts of pages, best first: with the most of the words; then those whose page or heading names them, and how-tos.
    At least half of the words occur.
    """
    asked = [_stem(word) for word in words if word.lower() not in _COMMON] or [_stem(word) for word in words]
    hits = [hit for page in doc_pages() for hit in _hits(page, tuple(dict.fromkeys(asked)))]
    return tuple(sorted(hits, key=lambda hit: -hit.score))


def _stem(word: str) -> str:
    """Without the ending: `deleted` finds `delete`, and `automatically` finds `automatic`."""
    word = word.lower()
    ending = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) >= 4), "")
    return word.removesuffix(ending)


def _hits(page: DocPage, words: Sequence[str]) -> Iterator[PageHit]:
    name = f"{page.name} {page.title}".lower()
    for heading, body in _parts(page.text):
        here, title = body.lower(), heading.lower()
        found = [word for word in words if word in here or word in title or word in name]
        lines = [line for line in body.splitlines() if any(word in line.lower() for word in words)]
        if 2 * len(found) < len(words) or not (lines or any(word in title for word in words)):
            continue
        titles = sum(word in text for word in found for text in (name, title))
        in_text = sum(min(here.count(word), 5) for word in found)
        score = 100 * len(found) + 15 * titles + 10 * (page.section == "how-to") + in_text
        best = max(lines, key=lambda line: sum(word in line.lower() for word in words), default="")
        yield PageHit(page=page.name, heading=heading, line=" ".join(best.split()), score=score)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Each heading with the text up to the next one."""
    found = [*_HEADING.finditer(text)]
    for place, heading in enumerate(found):
        end = found[place + 1].start() if place + 1 < len(found) else len(text)
        yield heading[2], text[heading.end() : end]
