"""`lmi compile`."""

from __future__ import annotations

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import (
    json_option,
    max_hourly_option,
    recipe_argument,
    recipe_options,
    yes_option,
)
from lmi_deploy.domain.number_text import counted, size_text
from lmi_deploy.workflows import compile as workflow


@click.command("compile")
@recipe_argument
@recipe_options
@yes_option
@click.option("--stop", is_flag=True, help="Stop what compiles RECIPE now.")
@max_hourly_option
@json_option
def command(
    *,
    recipe: str | None,
    overlay: str | None,
    sets: tuple[str, ...],
    yes: bool,
    stop: bool,
    max_hourly: float | None,
    as_json: bool,
) -> None:
    """Compile or partition the model of RECIPE once, ahead of time, and store the result.

    RECIPE has the key `compile`; `lmi up` then serves the result, and no start-up compiles anything. lmi stores the
    result beside the weights under a name that is derived from everything that decides it: if it exists, the command
    does nothing, in every deployment. On target sagemaker the result is in the bucket, for every machine, and an
    interrupted command leaves the job running: the same command waits for it. On target local the script runs on this
    machine and the result is in the cache (`lmi cache ls`); an interrupted command ends it and keeps nothing.
    """
    context = open_context(as_json=as_json)
    read = read_recipe(recipe, overlay=overlay, sets=sets)
    if stop:
        outcome = context.outcome(workflow.stop(read, context.deps))
        context.view.result({"deployment": read.name, "outcome": outcome}, outcome)
        return
    prepared = workflow.prepare(read, context.deps)
    if prepared.found is None:
        context.view.plan(prepared.plan, prepared.made.estimate)
    for notice in prepared.made.notices:
        context.view.note(f"  {notice}")
    workflow.require_affordable(prepared, max_hourly)
    if not prepared.plan.empty:
        confirm("Go ahead?", yes=yes, free=not prepared.compiler.detached)
    found = context.outcome(workflow.execute(prepared, context.deps))
    size = sum(file.size for file in found.listing.files)
    already = "" if prepared.found is None else "already "
    text = f"{read.name}: {already}compiled, {counted(len(found.listing.files), 'file')}, {size_text(size)}"
    context.view.note(f"\nServe it:\n  lmi up {read.arguments}\n")
    context.view.result(
        {
            "deployment": read.name,
            "result": found.listing.commit,
            "compiled_by": found.listing.compiled,
            "files": [file.path for file in found.listing.files],
            "bytes": size,
            "changed": not prepared.plan.empty,
        },
        text,
    )
