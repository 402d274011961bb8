"""`lmi extend`."""

from __future__ import annotations

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment, ref_fields
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, place_options
from lmi_deploy.workflows.extend import extend


@click.command("extend")
@click.argument("name")
@click.argument("duration")
@place_options
@json_option
def command(*, name: str, duration: str, where: TargetOptions, as_json: bool) -> None:
    """Let deployment NAME expire DURATION from now (90m, 8h, 7d), instead of at the end of its `ttl`.

    DURATION is from one minute to 90 days, like `ttl`. The next `lmi up` keeps the new time, unless the recipe's `ttl`
    was changed or the deployment has expired by then.

    Nothing is deleted automatically: `lmi gc` lists expired deployments and deletes them after you agree.
    """
    context = open_context(as_json=as_json)
    ref = find_deployment(name, context.deps, where)
    ref, expires = extend(ref, duration, context.deps)
    context.view.note(f"{ref.name} ({ref.place}): expires at {expires}")
    context.view.result({**ref_fields(ref), "expires_at": expires}, expires)
