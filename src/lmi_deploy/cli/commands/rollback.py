"""`lmi rollback`."""

from __future__ import annotations

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment, ref_fields
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import (
    json_option,
    lock_timeout_option,
    max_hourly_option,
    name_argument,
    place_options,
    yes_option,
)
from lmi_deploy.domain.record import KEPT_GENERATIONS
from lmi_deploy.workflows import rollback as workflows_rollback


class _Generation(click.ParamType[int | str]):
    """A number, or the name of an endpoint config."""

    name = "generation"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if not value.isdigit():
            return value
        return click.IntRange(1, KEPT_GENERATIONS - 1)(value, param, ctx)


@click.command("rollback")
@name_argument
@place_options
@click.option(
    "--to",
    type=_Generation(),
    metavar="GENERATION",
    help="How many generations back, as numbered by `lmi status`, or an endpoint config.  [default: 1]",
)
@click.option(
    "--if-serving", metavar="CONFIG", help="Refuse if another endpoint config serves than this one."
)
@max_hourly_option
@lock_timeout_option
@yes_option
@json_option
def command(
    *,
    name: str | None,
    where: TargetOptions,
    to: int | str | None,
    if_serving: str | None,
    max_hourly: float | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Point the endpoint at an earlier generation, and send it a probe.

    lmi keeps the last five generations. It uploads and creates nothing, so a rollback takes as long as an instance
    takes to start. After a rollback, --yes refuses the generation that it left, unless --to names it.
    """
    context = open_context(as_json=as_json)
    found = find_deployment(name, context.deps, where)
    ref, plan, estimate, server = workflows_rollback.prepare_rollback(
        found,
        context.deps,
        to or 0,
        max_hourly=max_hourly,
        if_serving=if_serving or "",
        unattended=yes,
    )
    context.view.plan(plan, estimate)
    confirm(f"Roll back to {server} ({ref.place})?", yes=yes)
    context.run(workflows_rollback.roll_back(ref, context.deps, server, plan))
    address = context.deps.targets[ref.target].address(ref)
    context.view.result({**ref_fields(ref), "config": server, "address": address}, address)
