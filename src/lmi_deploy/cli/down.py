"""`lmi down`."""

from __future__ import annotations

import click

from lmi_deploy.cli.case import open_room
from lmi_deploy.cli.find import confirm, find_deployment
from lmi_deploy.cli.options import json_option, name_argument, yes_option
from lmi_deploy.steps import down


@click.command("down")
@name_argument
@yes_option
@json_option
def command(*, name: str | None, yes: bool, as_json: bool) -> None:
    """Take a deployment away, and check that nothing is left.

    Caches stay (`lmi cache` frees them). Without a deployment of that name there is nothing to do, and that is no
    error.
    """
    room = open_room(as_json=as_json)
    ending = down.prepare(find_deployment(name, room.deps), room.deps)
    if ending.plan.empty:
        room.view.note(f"{ending.ref.name}: nothing of it is here")
    else:
        room.view.plan(ending.plan)
        confirm("Take it away?", yes=yes)
    room.play(down.carry_out(ending, room.deps))
    room.view.result({"deployment": ending.ref.name, "removed": len(ending.plan.actions)})
