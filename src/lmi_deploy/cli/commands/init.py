"""`lmi init`."""

from __future__ import annotations

from pathlib import Path

import click

from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.options import json_option
from lmi_deploy.cli.output_files import writing
from lmi_deploy.errors import Refused
from lmi_deploy.workflows.init import generate_recipe

SCHEMA = "recipe.schema.json"


@click.command("init")
@click.argument("model")
@click.option("--revision", default="main", show_default=True, help="Branch, tag or commit.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@json_option
def command(*, model: str, revision: str, output: Path | None, as_json: bool) -> None:
    """Look at MODEL (a Hub id or a local folder) and write a commented recipe for it, which validates.

    Each choice is explained beside it. The recipe goes to FILE (default: NAME.yaml); `-o -` prints it. The first line
    points editors at a JSON Schema beside it; `lmi schema > recipe.schema.json` writes that.
    """
    context = open_context(as_json=as_json)
    created = generate_recipe(model, revision, context.deps, schema=SCHEMA)
    if str(output) == "-":
        context.view.result({"recipe": created.text, "name": created.name}, created.text)
        return
    path = output or Path(f"{created.name}.yaml")
    if path.exists():
        raise Refused(f"{path}: is there already", hint="name another file with -o, or print it with -o -")
    with writing(path):
        path.write_text(created.text, encoding="utf-8")
    context.view.note(f"next: read {path}, then lmi plan {path}")
    if not path.with_name(SCHEMA).exists():
        context.view.note(f"for your editor: lmi schema > {path.with_name(SCHEMA)}")
    context.view.result({"recipe": created.text, "name": created.name, "file": str(path)}, str(path))
