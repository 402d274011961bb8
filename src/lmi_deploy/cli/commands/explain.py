"""`lmi explain`."""

from __future__ import annotations

import dataclasses

import click

from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.ui.page_text import explanation_lines
from lmi_deploy.ui.view_selection import open_view


@click.command("explain")
@click.argument("key", nargs=-1, required=True, metavar="WORD | TEXT...")
@json_option
def command(*, key: tuple[str, ...], as_json: bool) -> None:
    """Explain a key of a recipe, an option, an engine, a failure, an error, an exit code, or the TEXT of a log.

    For example endpoint.region, max_model_len, image-wrong-architecture, AccessError, 5, OOM, "CUDA out of memory".
    """
    from lmi_deploy.planning.explain import explain

    view, found = open_view(as_json=as_json), explain(" ".join(key))
    view.words(explanation_lines(found))
    view.result({"meanings": [{**dataclasses.asdict(each), "facts": dict(each.facts)} for each in found]})
