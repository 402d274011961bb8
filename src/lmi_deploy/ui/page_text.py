"""Pages of the documentation and explanations, in a terminal."""

from __future__ import annotations

import io
import sys
import textwrap
from collections.abc import Iterable, Iterator
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final

from lmi_deploy.ui.colour import Paint, has_colour

if TYPE_CHECKING:
    from lmi_deploy.domain.documentation import DocPage, PageHit, WordMeaning

MOST_HITS: Final = 15
_WIDEST: Final = 100
_LEAD: Final = 12


def rendered_page(markdown: str) -> str:
    """Markdown for a terminal: headings, tables and code as people read them."""
    from rich.console import Console
    from rich.markdown import Markdown

    stream = io.StringIO()
    coloured = has_colour(sys.stdout)
    console = Console(
        file=stream,
        width=_width(),
        force_terminal=coloured,
        no_color=not coloured,
        color_system="standard" if coloured else None,
    )
    console.print(Markdown(markdown, hyperlinks=False))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def page_list(pages: Iterable[DocPage]) -> Iterator[str]:
    """The names of all pages, by section."""
    paint, listed = Paint(sys.stdout), [*pages]
    wide = max(len(page.name) for page in listed) + 2
    section = None
    for page in listed:
        if page.section != section:
            section = page.section
            yield paint({"": "start here"}.get(section, section), "bold")
        yield f"  {page.name:<{wide}}{_cut(page.title, _width() - wide - 2)}"


def hit_lines(hits: Iterable[PageHit]) -> Iterator[str]:
    """The best hits: page and heading, then the line that was found."""
    paint, found = Paint(sys.stdout), [*hits]
    for hit in found[:MOST_HITS]:
        yield f"{paint(hit.page, 'bold')}: {hit.heading}"
        if hit.line:
            yield f"  {_cut(hit.line, _width() - 2)}"
    if len(found) > MOST_HITS:
        yield f"... and {len(found) - MOST_HITS} more: add a word, or --json for all"


def explanation_lines(found: Iterable[WordMeaning]) -> Iterator[str]:
    paint, width = Paint(sys.stdout), _width()
    for place, each in enumerate(found):
        yield from [""] * bool(place)
        yield f"{paint(each.name, 'bold')}: {each.kind}"
        yield from ("  " + line for line in _wrapped(each.text, width - 2))
        for name, value in each.facts:
            first, *rest = _wrapped(value, width - _LEAD - 2)
            yield f"  {name:<{_LEAD}}{first}"
            yield from (" " * (_LEAD + 2) + line for line in rest)
        if each.page:
            yield f"  {'page':<{_LEAD}}lmi docs {each.page}"


def _width() -> int:
    return min(get_terminal_size().columns, _WIDEST)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _cut(text: str, width: int) -> str:
    return textwrap.shorten(text, max(width, 20), placeholder=" ...")
