"""`lmi wait`."""

from __future__ import annotations

import dataclasses

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, name_argument, no_rollback_option, place_options
from lmi_deploy.workflows import wait
from lmi_deploy.workflows.status import EXIT, status


@click.command("wait")
@name_argument
@place_options
@click.option(
    "--timeout",
    type=int,
    metavar="SECONDS",
    help="Stop waiting after this time.  [default: the time limits of the recipe]",
)
@no_rollback_option
@json_option
def command(
    *, name: str | None, where: TargetOptions, timeout: int | None, no_rollback: bool, as_json: bool
) -> int:
    """Wait for a deployment that `lmi up --detach` or an interrupted `up` started, and send it a probe.

    If nothing is in progress, the command ends at once with the exit code of `lmi status`.
    """
    context = open_context(as_json=as_json)
    ref = find_deployment(name, context.deps, where)
    context.run(wait.wait(ref, context.deps, timeout=timeout, rollback=not no_rollback))
    found = status(ref, context.deps)
    context.view.note(f"{ref.name}: {found.standing}" + (f" ({found.why})" if found.why else ""))
    context.view.result(dataclasses.asdict(found), found.address)
    return EXIT[found.standing]
