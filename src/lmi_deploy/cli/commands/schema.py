"""`lmi schema`."""

from __future__ import annotations

import json

import click

from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.domain.type_schema import Schema
from lmi_deploy.errors import UsageRefused
from lmi_deploy.ui.view_selection import open_view


@click.command("schema")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.option("--events", is_flag=True, help="Print that of each line that --json prints, of all commands.")
@json_option
def command(*, words: tuple[str, ...], events: bool, as_json: bool) -> None:
    """Print the recipe's JSON Schema, for editors.

    With COMMAND, such as `up` or `weights push`, print the JSON Schema of each line that this command prints with
    --json.
    """
    schema = _of_output(words, events=events) if words or events else _of_recipes()
    open_view(as_json=as_json).result({"schema": schema}, json.dumps(schema, indent=2, ensure_ascii=False))


def _of_recipes() -> Schema:
    from lmi_deploy.recipe.json_schema import json_schema

    return json_schema()


def _of_output(words: tuple[str, ...], *, events: bool) -> Schema:
    from lmi_deploy.cli.output_schema.schema import OUTPUTS, output_schema
    from lmi_deploy.recipe.name_suggestions import suggestion_text

    if words and events:
        raise UsageRefused("COMMAND and --events cannot be combined", hint="omit one of them")
    name = " ".join(words)
    if words and name not in OUTPUTS:
        within = [known for known in OUTPUTS if known.startswith(f"{name} ")]
        near = suggestion_text(name, [*OUTPUTS]) or "`lmi --help` lists the commands"
        hint = f"name one of {', '.join(within)}" if within else near
        raise UsageRefused(f"{name}: no command that prints JSON has this name", hint=hint)
    return output_schema(name or None)
