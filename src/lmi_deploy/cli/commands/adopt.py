"""`lmi adopt`."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Any, Final

import click

from lmi_deploy.api.deployment_lookup import ref_fields
from lmi_deploy.api.recipe_loading import parse_text, read
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.output_files import writing
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import json_option, yes_option
from lmi_deploy.composition.targets import recipe_issues
from lmi_deploy.domain.deployment_names import name_error
from lmi_deploy.domain.plan import Estimate
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.record import command_for
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignEndpoint
from lmi_deploy.errors import RecipeError, Refused, UsageRefused
from lmi_deploy.recipe.parse import parse
from lmi_deploy.recipe.reader import Purpose
from lmi_deploy.targets.sagemaker.permissions import Policy
from lmi_deploy.workflows.adopt import AdoptedRecipe, adopt, prepare_adoption, read_recipe_of

PURPOSE: Final = Purpose(target_issues=recipe_issues)


@click.command("adopt")
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file of the recipe; - prints it.  [default: NAME.yaml]",
)
@click.option("--model", default="", metavar="ID", help="The model, if the endpoint does not name it.")
@click.option("--region", default="", help="The AWS region; by default that of AWS's own chain.")
@click.option("--take", is_flag=True, help="Tag endpoint, config and model as lmi's, and record them.")
@click.option("--force", is_flag=True, help="Adopt although CloudFormation, Terraform or Pulumi manages it.")
@click.option("--policy", is_flag=True, help="Print the IAM policy that a deployer needs for it, and stop.")
@yes_option
@json_option
def command(
    *,
    name: str,
    output: Path | None,
    model: str,
    region: str,
    take: bool,
    force: bool,
    policy: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Write the recipe of an endpoint that another tool made, and with --take make it a deployment of lmi.

    NAME is an endpoint that was made in the console, with boto3, SageMaker's SDK or Terraform. Without --take, lmi
    only reads: it writes a recipe, and prints what the recipe does not contain. With --take it uses the recipe in
    FILE if that exists, tags the endpoint, its config and its model, and records them: status, logs, invoke, scale,
    extend and down then work, and the next `lmi up` is an ordinary update that `lmi rollback` takes back. Nothing that
    serves is changed before that.
    """
    context = open_context(as_json=as_json)
    foreign = context.deps.adopter().read(name, region)
    if policy:
        document = Policy(grants=tuple(context.deps.adopter().permissions(foreign))).document
        context.view.result({"policy": document}, json.dumps(document, indent=2))
        return
    path = output or Path(f"{name.lower()}.yaml")
    fields: dict[str, Any] = {"endpoint": name, "region": foreign.region, "file": str(path), "notes": []}
    if not (take and path.exists()):
        adopted = read_recipe_of(foreign, context.deps, model=model, purpose=PURPOSE)
        fields |= _write(context, adopted, path, take=_take(foreign, path, force=force))
    if not take:
        _preview(context, foreign, fields, path, force=force)
        return
    recipe = _recipe(path, name)
    adoption = prepare_adoption(foreign, recipe, context.deps, force=force)
    fields |= {**ref_fields(adoption.ref), "changed": not adoption.is_complete}
    if adoption.is_complete:
        context.view.note(f"{name} is a deployment of lmi already: nothing to do")
    else:
        context.show_plan(adoption.plan, Estimate(), adoption.notices)
        confirm(f"Take {name} over ({adoption.ref.place})? `lmi down` deletes it from then on.", yes=yes)
        context.run(adopt(adoption, recipe, context.deps, force=force))
        context.view.note(
            f"next: {adoption.ref.command('invoke')}, then lmi plan {quote(str(path))}, which shows what `lmi up` "
            "would change"
        )
    context.view.result(fields, name)


def _take(foreign: ForeignEndpoint, path: Path, *, force: bool) -> str:
    """The command that takes it over with this recipe, on any machine."""
    name = foreign.endpoint.name
    file = "" if str(path) in ("-", f"{name.lower()}.yaml") else f" -o {quote(str(path))}"
    return f"{command_for('adopt', name, foreign.region)} --take{file}" + " --force" * force


def _write(context: CommandContext, adopted: AdoptedRecipe, path: Path, *, take: str) -> dict[str, Any]:
    recipe = adopted.recipe
    for note in recipe.notes:
        context.view.note(f"- {note}")
    if str(path) != "-":
        code = {path.parent / recipe.name / file: content for file, content in adopted.files.items()}
        files = {path: recipe.text.encode(), **code}
        existing = next((file for file in files if file.exists()), None)
        if existing is not None:
            raise Refused(
                f"{existing}: the file exists",
                hint=f"name another file with -o; `{take}` uses {path} as it is",
            )
        for file, content in files.items():
            with writing(file):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
    return {"recipe": recipe.text, "name": recipe.name, "notes": list(recipe.notes)}


def _preview(
    context: CommandContext, foreign: ForeignEndpoint, fields: dict[str, Any], path: Path, *, force: bool
) -> None:
    """What --take would do, as far as the recipe is right."""
    name, to_stdout = foreign.endpoint.name, str(path) == "-"
    later: str = ""
    taken = False
    try:
        recipe = parse(fields["recipe"], str(path), purpose=PURPOSE)
        adoption = prepare_adoption(foreign, recipe, context.deps, force=force)
        taken = adoption.is_complete
        context.show_plan(adoption.plan, Estimate(), adoption.notices)
    except RecipeError as error:
        for problem in error.problems:
            context.view.note(f"  {problem}")
        later = "correct the recipe"
    except Refused as error:
        later = f"{error.message}: {error.hint}"
    read = f"save the recipe as {name.lower()}.yaml" if to_stdout else f"read {path}"
    context.view.note(
        f"nothing was changed. Next: {later or f'{read}, then {_take(foreign, path, force=force)}'}"
    )
    context.view.result(
        {**fields, "taken": taken, "refused": later}, fields["recipe"] if to_stdout else str(path)
    )


def _recipe(path: Path, name: str) -> Recipe:
    """The recipe in the file. UsageRefused if it is that of another deployment."""
    recipe = parse_text(read(str(path)), str(path), overlay=None, sets=())
    if (recipe.name, recipe.endpoint.target) == (name, "sagemaker") or name_error(name):
        return recipe
    raise UsageRefused(
        f"{path}: its name is {recipe.name}, target {recipe.endpoint.target}; the endpoint's is {name}, on sagemaker",
        hint=f"set name: {name} in the recipe, or name another file with -o",
    )
