"""`lmi export`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.output_files import require_absent, writing
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import (
    force_fit_option,
    json_option,
    recipe_argument,
    recipe_options,
    yes_option,
)
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.plan import Estimate
from lmi_deploy.domain.sagemaker.exported_stack import WRITTEN_BY, StackFormat
from lmi_deploy.workflows import export as workflow
from lmi_deploy.workflows.export import PreparedExport, StackText

_SUFFIXES: dict[StackFormat, str] = {"cloudformation": ".template.yaml", "terraform": ".tf"}


@click.command("export")
@recipe_argument
@recipe_options
@click.option(
    "--format",
    "stack_format",
    type=click.Choice(["cloudformation", "terraform"]),
    required=True,
    help="The tool that the stack is for.",
)
@click.option(
    "-o",
    "--out",
    metavar="DIR/FILE",
    help="Write to this file, or as NAME.tf or NAME.template.yaml to this folder.  [default: stdout]",
)
@click.option("--force", is_flag=True, help="Overwrite a file that `lmi export` did not write.")
@click.option("--upload", is_flag=True, help="Also put the artifact and the weights into the bucket.")
@click.option(
    "--environment-values",
    is_flag=True,
    help="Write the values of container.environment; without it they are secret parameters without a default.",
)
@force_fit_option
@yes_option
@json_option
def command(
    *,
    recipe: str | None,
    overlay: str | None,
    sets: tuple[str, ...],
    stack_format: StackFormat,
    out: str | None,
    force: bool,
    upload: bool,
    environment_values: bool,
    force_fit: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Write the resources of RECIPE as a CloudFormation template or a Terraform configuration.

    For teams whose infrastructure belongs to such a tool. The stack contains model, endpoint config, endpoint and
    autoscaling as `lmi up` would create them. lmi neither applies it nor owns its resources: no other command changes
    them. The stack reads an artifact and weights in S3, which --upload puts there; an interrupted upload continues
    when the command is run again.
    """
    context = open_context(as_json=as_json)
    read = read_recipe(recipe, overlay=overlay, sets=sets)
    path = _path(out, read.name, stack_format)
    if path is not None:
        foreign = [path] if path.is_file() and not _is_export(path) else []
        require_absent(foreign, force=force, instead="name another file")
    prepared = workflow.prepare(
        read, context.deps, stack_format, with_environment=environment_values, force_fit=force_fit
    )
    for notice in prepared.notices:
        context.view.note(f"  {notice}")
    if upload:
        _upload(context, prepared, yes=yes)
    if path is not None:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(prepared.stack.text, encoding="utf-8")
    uploaded = upload or prepared.plan.empty
    flags = ["--environment-values"] * environment_values + ["--force-fit"] * force_fit + ["--upload"]
    arguments = shlex.join([f"--format={stack_format}", *(["--out", out] if out else []), *flags])
    _show_notes(context, prepared, uploaded=uploaded, command=f"lmi export {read.arguments} {arguments}")
    where = {"file": str(path)} if path else {"text": prepared.stack.text}
    fields = {"deployment": prepared.spec.name, "format": stack_format, **where, "uploaded": uploaded}
    context.view.result({**fields, **_fields(prepared.stack)}, *where.values())


def _fields(stack: StackText) -> dict[str, Any]:
    return {
        "resources": list(stack.resources),
        "parameters": list(stack.parameters),
        "without_default": list(stack.without_default),
        "objects": [{"address": each.address, "what": each.what} for each in stack.objects],
    }


def _upload(context: CommandContext, prepared: PreparedExport, *, yes: bool) -> None:
    if prepared.starts_job:
        context.view.plan(prepared.plan, Estimate())
        confirm("Run the job that moves the weights?", yes=yes)
    context.show_events(workflow.upload(prepared, context.deps))


def _show_notes(context: CommandContext, prepared: PreparedExport, *, uploaded: bool, command: str) -> None:
    """What is still to be done before the stack can be applied."""
    if not uploaded:
        left = "; ".join(action.title for action in prepared.plan.actions)
        context.view.note(f"objects of the stack are not in S3 yet ({left}). Put them there:\n  {command}")
    if names := prepared.stack.without_default:
        word = "a parameter" if len(names) == 1 else counted(len(names), "parameter")
        context.view.note(f"{word} without a default: {', '.join(names)}")


def _path(out: str | None, name: str, stack_format: StackFormat) -> Path | None:
    if out is None or out == "-":
        return None
    path = Path(out)
    return path / f"{name}{_SUFFIXES[stack_format]}" if out.endswith("/") or path.is_dir() else path


def _is_export(path: Path) -> bool:
    with writing(path), path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().startswith(f"# {WRITTEN_BY}")
