"""`lmi iam`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, recipe_argument, recipe_options
from lmi_deploy.cli.shared_policies import shared_option, shared_prefix
from lmi_deploy.errors import UsageRefused
from lmi_deploy.targets.sagemaker.permissions import PARTS, load_role_of, policies
from lmi_deploy.targets.sagemaker.permissions.cli_commands import role_commands
from lmi_deploy.workflows.up import resolve_recipe

_NEEDS = {
    "job": ("transfer job", "weights.via: job"),
    "load": ("load job", "bench.via: job"),
    "compile": ("compile job", "compile"),
    **dict.fromkeys(("scheduler", "scheduler-trust"), ("role for its expiry", "endpoint.scheduler_role")),
}
"""What a part of the policies belongs to, and the key that adds it."""


@click.command("iam")
@recipe_argument
@recipe_options
@click.option(
    "--part", type=click.Choice(PARTS), help="Print only this document, in the form that IAM accepts."
)
@shared_option
@json_option
def command(
    *,
    recipe: str | None,
    overlay: str | None,
    sets: tuple[str, ...],
    part: str | None,
    shared: str | None,
    as_json: bool,
) -> None:
    """Print the least-privilege IAM policies for RECIPE: for the user who deploys it, and for its roles.

    This command creates nothing. It prints the documents as one JSON object (with --part only one of them), and on
    stderr the commands that create the roles. --shared prints policies for all deployments of a team, whichever model
    they serve.
    """
    context = open_context(as_json=as_json)
    read = read_recipe(recipe, overlay=overlay, sets=sets)
    prefix = shared_prefix(read, shared)
    spec = resolve_recipe(read, context.deps).spec
    load_role = ""
    if read.bench is not None and read.bench.via == "job":
        load_role = load_role_of(spec, read.bench.job_role)
    found = policies(spec, prefix=prefix, load_role=load_role)
    documents: Mapping[str, Any] = found.documents
    if part is not None and part not in documents:
        what, setting = _NEEDS[part]
        raise UsageRefused(
            f"--part {part}: the recipe has no {what}",
            hint=f"set {setting} in the recipe, or omit --part {part}",
        )
    if part is None:  # a user who prints one part already follows these lines
        for line in role_commands(spec, read.arguments, found, prefix=prefix, load_role=load_role):
            context.view.note(line)
    shown = documents if part is None else documents[part]
    context.view.result(documents if part is None else {part: shown}, json.dumps(shown, indent=2))
