"""`lmi render`."""

from __future__ import annotations

from pathlib import Path

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.output_files import writing
from lmi_deploy.cli.shared_options import json_option, recipe_argument, recipe_options
from lmi_deploy.domain.number_text import counted
from lmi_deploy.errors import Refused
from lmi_deploy.workflows import up


@click.command("render")
@recipe_argument
@recipe_options
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder to write to.",
)
@json_option
def command(
    *, recipe: str | None, overlay: str | None, sets: tuple[str, ...], output: Path, as_json: bool
) -> None:
    """Write the files that would be deployed to DIR, which must be new or empty.

    The location of the weights is a placeholder, `{{weights}}`, which the target replaces.
    """
    context = open_context(as_json=as_json)
    artifact = up.rendered_files(read_recipe(recipe, overlay=overlay, sets=sets), context.deps)
    if output.exists() and any(output.iterdir()):
        raise Refused(f"{output}: the folder is not empty", hint="nothing was written. Name a new folder")
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
        for file in artifact.files:
            (output / file.path).parent.mkdir(parents=True, exist_ok=True)
            (output / file.path).write_bytes(file.content)
    for file in artifact.files:
        context.view.note(f"{output / file.path}: {len(file.content)} bytes")
    if artifact.copied:
        context.view.note(
            f"not written: {counted(len(artifact.copied), 'file')} of adapters, which the target copies"
        )
    names = [file.path for file in artifact.files]
    context.view.result({"folder": str(output), "files": names, "digest": artifact.digest}, str(output))
