"""`lmi iam`."""

from __future__ import annotations

import json

import click

from lmi_deploy.cli.case import open_room
from lmi_deploy.cli.find import read_recipe
from lmi_deploy.cli.options import json_option, recipe_argument, recipe_options
from lmi_deploy.decide.iam import PARTS, policies, role_commands
from lmi_deploy.decide.resolve import resolve
from lmi_deploy.errors import UsageRefused
from lmi_deploy.steps.gather import gather


@click.command("iam")
@recipe_argument
@recipe_options
@click.option("--part", type=click.Choice(PARTS), help="One document alone, as IAM takes it.")
@json_option
def command(
    *, recipe: str | None, overlay: str | None, sets: tuple[str, ...], part: str | None, as_json: bool
) -> None:
    """Print the least that AWS must allow for RECIPE: for who deploys it, and for the role that the endpoint runs with.

    Nothing is created. The three documents come as one object, and how a role is made of them on stderr; with --part
    one of them comes alone.
    """
    room = open_room(as_json=as_json)
    read = read_recipe(recipe, overlay=overlay, sets=sets)
    if read.endpoint.target != "sagemaker":
        raise UsageRefused(
            f"endpoint.target: {read.endpoint.target} needs no rights of AWS's",
            hint="policies are for target sagemaker",
        )
    spec = resolve(read, gather(read, room.deps))
    found = policies(spec)
    documents = found.documents
    if part is None:  # who asks for one part is following these lines already
        for line in role_commands(spec, read.arguments, characters=found.deployer.characters):
            room.view.note(line)
    shown = documents if part is None else documents[part]
    room.view.result(documents if part is None else {part: shown}, json.dumps(shown, indent=2))
