"""`lmi rollback`."""

from __future__ import annotations

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment, ref_fields
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import (
    json_option,
    max_hourly_option,
    name_argument,
    place_options,
    yes_option,
)
from lmi_deploy.domain.record import KEPT_GENERATIONS
from lmi_deploy.workflows import rollback as workflows_rollback


@click.command("rollback")
@name_argument
@place_options
@click.option(
    "--to",
    type=click.IntRange(1, KEPT_GENERATIONS - 1),
    metavar="N",
    help="How many generations back, as numbered by `lmi status`.  [default: 1]",
)
@max_hourly_option
@yes_option
@json_option
def command(
    *,
    name: str | None,
    where: TargetOptions,
    to: int | None,
    max_hourly: float | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Point the endpoint at an earlier generation, and send it a probe.

    lmi keeps the last five generations. It uploads and creates nothing, so a rollback takes as long as an instance
    takes to start.
    """
    context = open_context(as_json=as_json)
    found = find_deployment(name, context.deps, where)
    ref, plan, estimate, server = workflows_rollback.prepare_rollback(
        found, context.deps, to or 0, max_hourly=max_hourly
    )
    context.view.plan(plan, estimate)
    confirm(f"Roll back to {server} ({ref.place})?", yes=yes)
    context.run(workflows_rollback.roll_back(ref, context.deps, server, plan))
    address = context.deps.targets[ref.target].address(ref)
    context.view.result({**ref_fields(ref), "config": server, "address": address}, address)
