"""`lmi down`."""

from __future__ import annotations

import click

from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.lookup import TargetOptions, find_deployment, ref_fields
from lmi_deploy.cli.options import TargetName, json_option, name_argument, place_options, yes_option
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.domain.plan import Estimate
from lmi_deploy.errors import UsageRefused
from lmi_deploy.workflows import down


@click.command("down")
@name_argument
@place_options
@click.option("--purge", is_flag=True, help="Its weights in the bucket, too, where nobody else uses them.")
@click.option("--logs", is_flag=True, help="What its containers printed, too: the log group.")
@yes_option
@json_option
def command(
    *, name: str | None, target: TargetName | None, region: str, yes: bool, as_json: bool, **far: bool
) -> None:
    """Take a deployment away, and check that nothing is left.

    In the cloud only what carries its tag is touched. Weights stay for the next `up` (--purge takes them), and so do
    caches here (`lmi cache` frees them). Without a deployment of that name there is nothing to do, and that is no
    error, unless this machine brought one up in another account or in another region. --yes needs the name.
    """
    if yes and name is None:
        raise UsageRefused(
            "which deployment? --yes deletes only what is named",
            hint="lmi down NAME --yes, or lmi down RECIPE --yes; `lmi ls` lists what is known here",
        )
    context = open_context(as_json=as_json)
    found = find_deployment(name, context.deps, TargetOptions(target=target, region=region))
    teardown = down.prepare(found, context.deps, down.TeardownScope(**far))
    for notice in teardown.notices:
        context.view.note(f"  {notice}")
    if teardown.plan.empty:
        place = "here" if teardown.ref.target == "local" else f"in {teardown.ref.place}"
        context.view.note(f"{teardown.ref.name}: nothing of it is {place}")
    else:
        context.view.plan(teardown.plan, Estimate())
        confirm(f"Delete {teardown.ref.name} ({teardown.ref.place})?", yes=yes)
    context.run(down.execute(teardown, context.deps))
    context.view.result({**ref_fields(teardown.ref), "removed": len(teardown.plan.actions)})
