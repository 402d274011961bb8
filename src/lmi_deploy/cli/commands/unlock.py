"""`lmi unlock`."""

from __future__ import annotations

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment, ref_fields
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, place_options


@click.command("unlock")
@click.argument("name")
@click.argument("lock_id", metavar="ID")
@place_options
@click.option(
    "--force",
    is_flag=True,
    help="Also remove a lock that is still renewed; its holder stops before its next change.",
)
@json_option
def command(*, name: str, lock_id: str, where: TargetOptions, force: bool, as_json: bool) -> None:
    """Remove the lock ID of deployment NAME, if the process that holds it has ended.

    A lock expires 90 s after its last renewal, so this command is only needed if you cannot wait. If the lock was
    renewed in the last 45 s, its process is still running, and lmi removes the lock only with --force.
    """
    context = open_context(as_json=as_json)
    found = find_deployment(name, context.deps, where)
    ref = context.deps.targets[found.target].observe(found).ref
    lock_file = context.deps.lock(ref).unlock(ref.name, lock_id, force=force)
    what = f"{ref.name} ({ref.place})"
    context.view.note(f"{what}: unlocked; it was held by {lock_file}" if lock_file else f"{what}: not locked")
    context.view.result({**ref_fields(ref), "held_by": lock_file})
