"""`lmi up`."""

from __future__ import annotations

import click

from lmi_deploy.cli.after import how_to_ask, how_to_ask_fields
from lmi_deploy.cli.case import open_room
from lmi_deploy.cli.find import confirm, read_recipe
from lmi_deploy.cli.options import (
    json_option,
    recipe_argument,
    recipe_options,
    runtime_option,
    with_runtime,
    yes_option,
)
from lmi_deploy.steps import up


@click.command("up")
@recipe_argument
@recipe_options
@runtime_option
@yes_option
@click.option("--no-probe", is_flag=True, help="Do not end with one real inference.")
@json_option
def command(
    *,
    recipe: str | None,
    overlay: str | None,
    sets: tuple[str, ...],
    runtime: str | None,
    yes: bool,
    no_probe: bool,
    as_json: bool,
) -> None:
    """Make the deployment what RECIPE says, and prove that it answers.

    A second `up` changes nothing, and still asks for one real answer. A changed recipe is brought up beside what
    serves, asked, and only then takes the address.
    """
    room = open_room(as_json=as_json)
    wanted = read_recipe(recipe, overlay=overlay, sets=with_runtime(sets, runtime))
    case = up.prepare(wanted, room.deps, probe=not no_probe)
    room.view.plan(case.plan)
    for notice in case.notices:
        room.view.note(f"  {notice}")
    if not case.plan.empty:
        confirm("Go ahead?", yes=yes)
    room.play(up.carry_out(case, room.deps, probe=not no_probe))
    address = room.deps.targets[case.ref.target].address(case.ref)
    room.view.note(how_to_ask(case.spec, address))
    room.view.result(how_to_ask_fields(case, address), address)
