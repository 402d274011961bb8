"""`lmi extend`."""

from __future__ import annotations

import click

from lmi_deploy.cli.context import open_room
from lmi_deploy.cli.lookup import Where, find_deployment, ref_fields
from lmi_deploy.cli.options import TargetName, json_option, place_options
from lmi_deploy.workflows.extend import extend


@click.command("extend")
@click.argument("name")
@click.argument("duration")
@place_options
@json_option
def command(*, name: str, duration: str, target: TargetName | None, region: str, as_json: bool) -> None:
    """Let deployment NAME live for DURATION from now (90m, 8h, 7d), whatever `ttl` it was made with.

    From one minute to 90 days, as `ttl`. The next `lmi up` keeps it, unless the recipe's `ttl` was changed or the
    deployment has expired by then.

    Nothing ends by itself: `lmi gc` lists what has expired, and takes it away when told to.
    """
    room = open_room(as_json=as_json)
    ref = find_deployment(name, room.deps, Where(target=target, region=region))
    ref, expires = extend(ref, duration, room.deps)
    room.view.note(f"{ref.name} ({ref.place}): expires at {expires}")
    room.view.result({**ref_fields(ref), "expires_at": expires}, expires)
