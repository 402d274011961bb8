"""`lmi rollback`."""

from __future__ import annotations

import click

from lmi_deploy.cli.context import open_room
from lmi_deploy.cli.lookup import Where, find_deployment, ref_fields
from lmi_deploy.cli.options import (
    TargetName,
    json_option,
    max_hourly_option,
    name_argument,
    place_options,
    yes_option,
)
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.domain.record import KEPT_GENERATIONS
from lmi_deploy.workflows import rollback as workflows_rollback


@click.command("rollback")
@name_argument
@place_options
@click.option(
    "--to",
    type=click.IntRange(1, KEPT_GENERATIONS - 1),
    metavar="N",
    help="How many generations back, as `lmi status` numbers them; 1, the one before, if left out.",
)
@max_hourly_option
@yes_option
@json_option
def command(
    *,
    name: str | None,
    target: TargetName | None,
    region: str,
    to: int | None,
    max_hourly: float | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Point the endpoint at an earlier generation, and ask it for one real answer.

    The last five generations are kept. Nothing is uploaded or made: it takes as long as an instance takes to start.
    """
    room = open_room(as_json=as_json)
    found = find_deployment(name, room.deps, Where(target=target, region=region))
    ref, plan, server = workflows_rollback.prepare_rollback(found, room.deps, to or 0, max_hourly=max_hourly)
    room.view.plan(plan)
    confirm(f"Go back to {server} ({ref.place})?", yes=yes)
    room.carry_out(workflows_rollback.roll_back(ref, room.deps, server, plan))
    address = room.deps.targets[ref.target].address(ref)
    room.view.result({**ref_fields(ref), "config": server, "address": address}, address)
