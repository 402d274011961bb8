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
    """Parts of pages with all the words, best first: words in a title or heading count more."""
    asked = [word.lower() for word in words]
    hits = [hit for page in doc_pages() for hit in _hits(page, asked)]
    return tuple(sorted(hits, key=lambda hit: -hit.score))


def _hits(page: DocPage, words: Sequence[str]) -> Iterator[PageHit]:
    for heading, body in _parts(page.text):
        text = f"{page.title}\n{heading}\n{body}".lower()
        if not all(word in text for word in words):
            continue
        lines = [line for line in body.splitlines() if any(word in line.lower() for word in words)]
        titles = [f"{page.name} {page.title}".lower(), heading.lower()]
        in_text = sum(min(body.lower().count(word), 5) for word in words)
        if lines or any(word in heading.lower() for word in words):
            score = 15 * sum(word in title for word in words for title in titles) + in_text
            first = " ".join(lines[0].split()) if lines else ""
            yield PageHit(page=page.name, heading=heading, line=first, score=score)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Each heading with the text up to the next one."""
    found = [*_HEADING.finditer(text)]
    for place, heading in enumerate(found):
        end = found[place + 1].start() if place + 1 < len(found) else len(text)
        yield heading[2], text[heading.end() : end]
