"""The documentation as data: its pages, what a search finds in them, and what a word means."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DocPage:
    """One page. `section` is its folder, `text` its Markdown."""

    name: str
    section: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageHit:
    """A part of a page that contains some of the words; `line` is the line with most of them."""

    page: str
    heading: str
    line: str
    score: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WordMeaning:
    """One meaning of a word. `page`: the page of `lmi docs` with all of its kind."""

    kind: str
    name: str
    text: str
    facts: tuple[tuple[str, str], ...] = ()
    page: str = ""
