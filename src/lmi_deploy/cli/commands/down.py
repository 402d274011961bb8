"""`lmi down`."""

from __future__ import annotations

from dataclasses import asdict

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment, known, ref_fields
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import json_option, name_argument, place_options, yes_option
from lmi_deploy.domain.plan import Estimate
from lmi_deploy.errors import Refused, UsageRefused
from lmi_deploy.workflows import down
from lmi_deploy.workflows.list_deployments import look_in_other_regions


@click.command("down")
@name_argument
@place_options
@click.option(
    "--purge",
    is_flag=True,
    help="Also delete its weights in the bucket, unless another deployment uses them.",
)
@click.option("--logs", is_flag=True, help="Also delete its log group in CloudWatch.")
@yes_option
@json_option
def command(*, name: str | None, where: TargetOptions, yes: bool, as_json: bool, **far: bool) -> None:
    """Delete a deployment, and check that nothing is left.

    On AWS, lmi deletes only resources with the deployment's tag. It keeps the weights for the next `up` (--purge
    deletes them) and the cache on this machine (`lmi cache`). If there is no such deployment, all regions are looked
    at: the exit code is 5 if it is in another one, else 0. With --yes the name is required.
    """
    if yes and name is None:
        raise UsageRefused(
            "--yes needs the name of the deployment",
            hint="run `lmi down NAME --yes` or `lmi down RECIPE --yes`; `lmi ls` lists the deployments",
        )
    context = open_context(as_json=as_json)
    found = find_deployment(name, context.deps, where)
    teardown = down.prepare(found, context.deps, down.TeardownScope(purge=far["purge"], logs=far["logs"]))
    for notice in teardown.notices:
        context.view.note(f"  {notice}")
    ref, view = teardown.ref, context.view
    what = f"{ref.name} ({ref.place})"
    if teardown.plan.empty:
        _report_absent(teardown, context)
    else:
        if yes:
            view.note(f"delete {what}")
        view.plan(teardown.plan, Estimate())
        confirm(f"Delete {what}?", yes=yes)
    context.run(down.execute(teardown, context.deps))
    remaining = down.stored_after(teardown, context.deps)
    if not teardown.plan.empty:
        view.note(f"{what} is deleted: lmi looked again, and found nothing more to delete")
    for one in remaining:
        view.note(f"  {one.text}")
        if one.command:
            view.note(f"    {one.command}", copied=True)
    stored = [asdict(one) for one in remaining]
    view.result({**ref_fields(ref), "removed": len(teardown.plan.actions), "remaining": stored})


def _report_absent(teardown: down.TeardownPlan, context: CommandContext) -> None:
    """Refused if it is in another region: a pipeline must not take that for deleted."""
    ref = teardown.ref
    where = "here" if ref.is_here else f"in {ref.place}"
    if teardown.notices:
        return
    others = look_in_other_regions(ref, known(context.deps), context.deps)
    if others.found:
        places = " and ".join(sorted({one.region for one in others.found}))
        raise Refused(
            f"{ref.name}: not found {where}, but it exists in {places}",
            hint=f"nothing was deleted. `{others.found[0].down_command}` deletes it there",
        )
    context.view.note(f"{ref.name}: not found {where}{others.words}")
