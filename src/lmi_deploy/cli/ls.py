"""`lmi ls`."""

from __future__ import annotations

import click

from lmi_deploy.cli.case import open_room
from lmi_deploy.cli.find import known
from lmi_deploy.cli.options import json_option
from lmi_deploy.steps.status import status


@click.command("ls")
@json_option
def command(*, as_json: bool) -> None:
    """List the deployments of this machine."""
    room = open_room(as_json=as_json)
    found = [status(ref, room.deps) for ref in known(room.deps)]
    room.view.rows(
        [
            {
                "name": each.ref.name,
                "target": each.ref.target,
                "standing": each.standing,
                "address": each.address,
                "model": each.summary.get("model", ""),
                "memory": each.server.memory if each.server else 0,
                "since": each.since,
            }
            for each in found
        ]
    )
    if not found:
        room.view.note("no deployments here; `lmi up RECIPE` makes one")
    room.view.result({"deployments": len(found)})
