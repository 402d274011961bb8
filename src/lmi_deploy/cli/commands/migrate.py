"""`lmi migrate`."""

from __future__ import annotations

from dataclasses import asdict
from difflib import unified_diff
from pathlib import Path

import click

from lmi_deploy.api.recipe_loading import read
from lmi_deploy.cli.output_files import writing
from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.errors import CHANGES_PENDING, RecipeError, UsageRefused
from lmi_deploy.ui.view_selection import open_view


@click.command("migrate")
@click.argument("recipe", type=click.Path(dir_okay=False))
@click.option(
    "--to", "version", required=True, metavar="VERSION", help="The new version, such as 0.36.0-lmi28."
)
@click.option(
    "--check", is_flag=True, help="Show the difference, write nothing, and exit with 4 if there is one."
)
@json_option
def command(*, recipe: str, version: str, check: bool, as_json: bool) -> int:
    """Rewrite RECIPE for another version of the server: its version, and the names and values of its options.

    Comments and the order of keys stay. If the new version does not know an option, lmi comments it out and adds the
    reason. lmi writes nothing if the new recipe would have a mistake that the old one did not have.
    """
    from lmi_deploy.composition.targets import recipe_issues
    from lmi_deploy.recipe.reader import Purpose
    from lmi_deploy.recipe.recipe_migration import migrate

    view = open_view(as_json=as_json)
    try:
        before = read(recipe).decode()
    except UnicodeDecodeError:
        raise UsageRefused(f"{recipe}: is not UTF-8", hint="run `lmi validate` for the line") from None
    found = migrate(before, recipe, version, Purpose(target_issues=recipe_issues))
    difference = list(
        unified_diff(before.splitlines(), found.text.splitlines(), recipe, recipe, lineterm="", n=1)
    )
    view.words(difference)
    for change in found.changes:
        view.note(f"{recipe}:{change.line}: {change.key}: {change.became or 'removed'}. {change.why}".strip())
    if found.problems:
        raise RecipeError(
            list(found.problems),
            hint="nothing was written. Correct these mistakes by hand, then run the command again",
        )
    if not check and recipe != "-" and found.changes:
        with writing(recipe):
            Path(recipe).write_text(found.text, encoding="utf-8")
    fields = {
        "recipe": recipe,
        "version": version,
        "changes": [asdict(change) for change in found.changes],
        "written": bool(found.changes) and not check,
    }
    view.result(fields, "" if found.changes else f"{recipe}: nothing to change for {version}")
    return CHANGES_PENDING if check and found.changes else 0
