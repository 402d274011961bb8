"""`lmi rehearse`."""

from __future__ import annotations

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, recipe_argument, recipe_options
from lmi_deploy.ui.rehearsal_text import kept_lines, report_lines


@click.command("rehearse")
@recipe_argument
@recipe_options
@click.option(
    "--keep", is_flag=True, help="Leave everything running, to look at it; the emulator for 8 hours."
)
@json_option
def command(
    *, recipe: str | None, overlay: str | None, sets: tuple[str, ...], keep: bool, as_json: bool
) -> None:
    """Deploy RECIPE on this machine as it would be deployed on its target, without an account and without cost.

    lmi carries out the recipe's own plan against a private emulator, with a small model of the same architecture and
    random weights: up, requests, bad requests, update, rollback, down. The report says what this proves, what was
    emulated, and what only a real deployment shows.
    """
    from lmi_deploy.composition.rehearsal import KEPT, rehearsal_site
    from lmi_deploy.workflows.rehearse import Rehearsal

    context = open_context(as_json=as_json)
    read = read_recipe(recipe, overlay=overlay, sets=sets)
    with rehearsal_site(keep=keep, notify=context.view.note) as (site, user, open_deps):
        rehearsal = Rehearsal(read, user, site, open_deps, keep=keep)
        report = context.outcome(rehearsal.run())
        context.view.words(report_lines(report))
        if keep:
            lines = kept_lines(report, site.folder, site.variables(), site.emulator_pid, seconds=KEPT)
            for line in lines:
                context.view.note(line)
        kept = {"folder": str(site.folder), "environment": dict(site.variables())} if keep else {}
        context.view.result({**report.fields, **kept})
