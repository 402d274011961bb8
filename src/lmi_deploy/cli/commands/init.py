"""`lmi init`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from lmi_deploy.api.recipe_loading import as_model_id
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.model_recipe import EDITOR_SCHEMA
from lmi_deploy.cli.output_files import require_absent, writing
from lmi_deploy.cli.shared_options import json_option, recipe_output_options, require_region
from lmi_deploy.errors import UsageRefused


@click.command("init")
@click.argument("model", required=False)
@click.option(
    "--target",
    type=click.Choice(["sagemaker", "local"]),
    help="The target.  [default: sagemaker if AWS credentials exist, else local]",
)
@click.option(
    "--region", default="", help="Target sagemaker: the region.  [default: the credentials' region]"
)
@click.option(
    "--engine",
    type=click.Choice(["vllm", "accelerate"]),
    help="The inference engine.  [default: chosen for the model]",
)
@click.option(
    "--instance",
    metavar="TYPE",
    help="The instance type.  [default: the cheapest that holds the model]",
)
@click.option(
    "--context", type=click.IntRange(1), metavar="N", help="Length of the longest sequence in tokens."
)
@click.option(
    "--users",
    type=click.IntRange(1),
    metavar="N",
    help="Number of such sequences at once.  [default: 1]",
)
@click.option(
    "--revision", default="main", show_default=True, help="Branch, tag or commit of the model on the Hub."
)
@click.option("--plain", is_flag=True, help="Write no comments.")
@click.option("--example", metavar="NAME", help="Copy a recipe that comes with lmi, instead of MODEL.")
@recipe_output_options
@json_option
def command(*, model: str | None, output: Path | None, force: bool, as_json: bool, **flags: Any) -> None:
    """Write a commented recipe for MODEL, a Hub id or a local folder. The recipe is valid, and the model fits.

    lmi computes engine, instance type, parallel degree, length and time limits from config.json and the headers of
    the weights. A comment explains each choice. If AWS credentials exist, the recipe is for SageMaker, else for this
    machine. The first line of the recipe names a JSON Schema for editors; `lmi schema > recipe.schema.json` writes
    that schema.
    """
    context = open_context(as_json=as_json)
    example = flags.pop("example")
    if (model is None) == (example is None):
        raise UsageRefused(
            "MODEL: name either a model or --example NAME",
            hint=f"run for example lmi init owner/name; examples: {', '.join(_examples())}",
        )
    fields = _example(example) if model is None else _generated(model, output, flags, context)
    _write(fields, output, context, force=force)


def _generated(
    model: str, output: Path | None, flags: dict[str, Any], context: CommandContext
) -> dict[str, Any]:
    from lmi_deploy.workflows.hardware_selection import InitRequest
    from lmi_deploy.workflows.init import generate_recipe

    if flags["target"] == "local" and (flags["instance"] or flags["region"]):
        raise UsageRefused("--instance and --region need target sagemaker", hint="omit --target local")
    if flags["region"]:
        require_region(flags["region"])
    if flags["instance"] and flags["target"] is None:
        flags["target"] = "sagemaker"
    model = as_model_id(model)
    init_request = InitRequest(model_id=model, written_id=_from_recipe(model, output), **flags)
    draft = generate_recipe(init_request, context.deps, schema=EDITOR_SCHEMA)
    for note in draft.notes:
        context.view.note(note)
    choice = draft.choice
    return {
        "recipe": draft.text,
        "name": draft.name,
        "target": choice.target,
        "region": choice.region,
        "engine": choice.engine,
        "instance_type": choice.instance or None,
        "tensor_parallel_degree": choice.degree,
        "options": {key: value for key, value, _ in choice.options},
        "verdict": draft.verdict,
        "notes": list(draft.notes),
    }


def _from_recipe(model: str, output: Path | None) -> str:
    """A relative folder as the recipe's own folder sees it."""
    if not model.startswith(("./", "../")) or output is None or str(output.parent) == ".":
        return model
    path = os.path.relpath(model, output.parent)
    return path if path.startswith("../") else f"./{path}"


def _examples() -> list[str]:
    from lmi_deploy.catalog.package_files import recipes

    return sorted(path.stem for path in recipes().glob("*.yaml"))


def _example(name: str) -> dict[str, Any]:
    from lmi_deploy.catalog.package_files import recipes

    if name not in _examples():
        raise UsageRefused(f"--example {name}: no such example", hint=f"use one of {', '.join(_examples())}")
    text = (recipes() / f"{name}.yaml").read_text(encoding="utf-8")
    return {"recipe": text.replace("../docs/reference/recipe.schema.json", EDITOR_SCHEMA), "name": name}


def _write(fields: dict[str, Any], output: Path | None, context: CommandContext, *, force: bool) -> None:
    if str(output) == "-":
        context.view.result(fields, fields["recipe"])
        return
    path = output or Path(f"{fields['name']}.yaml")
    require_absent([path], force=force, instead="name another file with -o, print it with -o -")
    with writing(path):
        path.write_text(fields["recipe"], encoding="utf-8")
    context.view.note(f"next: read {path}, then lmi plan {path}")
    if not path.with_name(EDITOR_SCHEMA).exists():
        context.view.note(f"for your editor: lmi schema > {path.with_name(EDITOR_SCHEMA)}")
    context.view.result({**fields, "file": str(path)}, str(path))
