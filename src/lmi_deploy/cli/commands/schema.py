"""`lmi schema`."""

from __future__ import annotations

import json

import click

from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.ui.view_selection import open_view


@click.command("schema")
@json_option
def command(*, as_json: bool) -> None:
    """Print the recipe's JSON Schema, for editors."""
    from lmi_deploy.recipe.json_schema import json_schema

    schema = json_schema()
    open_view(as_json=as_json).result({"schema": schema}, json.dumps(schema, indent=2, ensure_ascii=False))
