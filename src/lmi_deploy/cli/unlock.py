"""`lmi unlock`."""

from __future__ import annotations

import click

from lmi_deploy.cli.case import open_room
from lmi_deploy.cli.find import Where, find_deployment
from lmi_deploy.cli.options import TargetName, json_option, place_options


@click.command("unlock")
@click.argument("name")
@click.argument("lock_id", metavar="ID")
@place_options
@json_option
def command(*, name: str, lock_id: str, target: TargetName | None, region: str, as_json: bool) -> None:
    """Take away the lock ID of deployment NAME, whose holder is known to be dead.

    A lock ends by itself 90 s after its holder was last alive; this is for those who cannot wait.
    """
    room = open_room(as_json=as_json)
    found = find_deployment(name, room.deps, Where(target=target, region=region))
    ref = room.deps.targets[found.target].observe(found).ref
    held = room.deps.lock(ref).unlock(ref.name, lock_id)
    room.view.note(f"{ref.name}: unlocked; it was held by {held}" if held else f"{ref.name}: not locked")
    room.view.result({"deployment": ref.name, "held_by": held})
