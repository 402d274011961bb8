"""`lmi logs`."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, name_argument, place_options
from lmi_deploy.workflows.status import status


@click.command("logs")
@name_argument
@place_options
@click.option("-f", "--follow", is_flag=True, help="Print new lines until interrupted.")
@json_option
def command(*, name: str | None, where: TargetOptions, follow: bool, as_json: bool) -> None:
    """Show the output of the model server and its workers, oldest first.

    If the deployment failed for a known reason, the cause is printed to stderr at the end.
    """
    context = open_context(as_json=as_json)
    ref = find_deployment(name, context.deps, where)
    count = 0
    # Following ends with Ctrl-C: that is the intended way.
    with suppress(KeyboardInterrupt) if follow else nullcontext():
        for line in context.deps.targets[ref.target].logs(ref, follow=follow):
            count += 1
            if as_json:
                context.view.rows([{"line": line}])
            else:
                context.view.chunk(line + "\n")
    found = status(ref, context.deps) if not follow else None
    if found is not None and found.standing == "failed":
        context.view.note(
            f"[{found.cause or found.why}]" + (f"\n[next: {found.remedy}]" if found.remedy else "")
        )
    context.view.result({"deployment": ref.name, "lines": count})
