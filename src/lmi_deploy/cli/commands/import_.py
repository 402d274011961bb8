"""`lmi import`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lmi_deploy.cli.output_files import require_absent, writing
from lmi_deploy.cli.shared_options import json_option, recipe_output_options
from lmi_deploy.ui.view_selection import open_view


@click.command("import")
@click.argument("source", metavar="FOLDER|FILE|-")
@click.option(
    "--model", default="", metavar="ID", help="The model; overrides the one that the settings name."
)
@click.option("--instance", default="", metavar="TYPE", help="The SageMaker instance type.")
@click.option(
    "--version",
    "server",
    default="",
    metavar="VERSION",
    help="The server version of the recipe (default: the newest); one whose images contain the old engine keeps it.",
)
@click.option("--local", is_flag=True, help="Write a recipe for this machine.")
@recipe_output_options
@json_option
def command(
    *,
    source: str,
    model: str,
    instance: str,
    server: str,
    local: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write a recipe for an existing deployment: a model folder, a model.tar.gz, a serving.properties, or variables.

    Variables are lines of NAME=VALUE, or the JSON of `docker inspect` or `aws sagemaker describe-model`; `-` reads
    them from standard input. lmi accepts the option names of all DJLServing versions, and replaces removed engines
    with current ones unless --version names a server that has them. It prints each difference, and writes it into
    the recipe as a comment. From an archive it extracts only model.py and requirements.txt, to a folder next to the
    recipe.
    """
    from lmi_deploy.composition.targets import recipe_issues
    from lmi_deploy.recipe.reader import Purpose
    from lmi_deploy.recipe.recipe_import import import_recipe, newest_version
    from lmi_deploy.workflows.import_source import read_source

    view, to_stdout = open_view(as_json=as_json), str(output) == "-"
    folder = output.parent if output and not to_stdout else Path()
    found = read_source(source, sys.stdin.buffer, folder)
    recipe = import_recipe(
        found.source,
        model_id=model,
        version=server or newest_version(),
        instances=(instance,) if instance else (),
        local=local,
        purpose=Purpose(target_issues=recipe_issues),
    )
    for note in recipe.notes:
        view.note(note)
    fields = {"recipe": recipe.text, "name": recipe.name, "notes": list(recipe.notes)}
    if to_stdout:
        view.result(fields, recipe.text)
        return
    path = output or Path(f"{recipe.name}.yaml")
    code = {folder / found.source.name / name: content for name, content in found.files.items()}
    _write({path: recipe.text.encode(), **code}, force=force)
    view.note(f"next: read {path}, then lmi validate {path}")
    view.result({**fields, "file": str(path)}, str(path))


def _write(files: dict[Path, bytes], *, force: bool) -> None:
    require_absent(files, force=force, instead="name another file with -o")
    for path, content in files.items():
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
