"""`lmi docs`."""

from __future__ import annotations

import dataclasses
import sys

import click

from lmi_deploy.catalog.doc_pages import doc_pages, find_page, search_pages
from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.domain.documentation import DocPage
from lmi_deploy.errors import NotFound
from lmi_deploy.recipe.name_suggestions import nearest
from lmi_deploy.ui.page_text import hit_lines, page_list, rendered_page
from lmi_deploy.ui.view import View
from lmi_deploy.ui.view_selection import open_view


@click.command("docs")
@click.argument("words", nargs=-1, metavar="[PAGE | WORD...]")
@json_option
def command(*, words: tuple[str, ...], as_json: bool) -> None:
    """Show PAGE of the documentation, search the pages for WORDs, or list the pages.

    A terminal shows the page in its pager (PAGER); a pipe gets the Markdown.
    """
    view = open_view(as_json=as_json)
    if not words:
        _list(view)
    elif len(words) == 1 and (page := find_page(words[0])) is not None:
        _show(view, page, as_json=as_json)
    else:
        _search(view, words)


def _list(view: View) -> None:
    pages = [{"page": page.name, "section": page.section, "title": page.title} for page in doc_pages()]
    view.words(page_list(doc_pages()))
    view.result({"pages": pages})


def _show(view: View, page: DocPage, *, as_json: bool) -> None:
    if as_json:
        view.result({"page": page.name, "title": page.title, "text": page.text})
    elif sys.stdout.isatty():
        click.echo_via_pager(rendered_page(page.text))
    else:
        view.result({}, page.text)


def _search(view: View, words: tuple[str, ...]) -> None:
    hits = search_pages(words)
    if not hits:
        near = nearest(words[0], [page.name for page in doc_pages()])
        raise NotFound(
            f"{' '.join(words)}: no page has this name, or half of these words",
            hint=f"did you mean `lmi docs {near}`?" if near else "`lmi docs` lists the pages",
        )
    view.words(hit_lines(hits))
    view.result({"hits": [dataclasses.asdict(hit) for hit in hits]})
