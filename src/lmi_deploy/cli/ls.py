"""`lmi ls`."""

from __future__ import annotations

from typing import Any

import click

from lmi_deploy.cli.case import open_room
from lmi_deploy.cli.find import known
from lmi_deploy.cli.options import json_option
from lmi_deploy.core.record import DeploymentRef
from lmi_deploy.errors import AccessError
from lmi_deploy.steps.astray import tagged
from lmi_deploy.steps.deps import Deps
from lmi_deploy.steps.status import Status, status

_SPARE = ("account", "address", "since", "memory")
"""What `lmi status` tells as well, least needed first."""


@click.command("ls")
@click.option("--all", "everywhere", is_flag=True, help="All of the account's region too, by their tags.")
@click.option("--region", default="", help="With --all: which region.")
@json_option
def command(*, everywhere: bool, region: str, as_json: bool) -> None:
    """List the deployments of this machine: those that run here, and those that were brought up from here.

    With --all also those in AWS that other machines brought up, or that an interrupted run left.
    """
    room = open_room(as_json=as_json)
    rows = {_key(ref): _row(ref, room.deps) for ref in known(room.deps)}
    if everywhere:
        found = {_key(ref): ref for ref in tagged(room.deps, region)}
        more = {key: _row(ref, room.deps) for key, ref in found.items() if key not in rows}
        # The tag search goes on listing what is gone, for some minutes.
        rows |= {key: row for key, row in more.items() if row["standing"] != "absent"}
    room.view.rows([*rows.values()], spare=_SPARE)
    if not rows:
        room.view.note("no deployments here; `lmi up RECIPE` makes one")
    room.view.result({"deployments": len(rows)})


def _key(ref: DeploymentRef) -> tuple[str, str, str, str]:
    return ref.name, ref.target, ref.region, ref.account


def _row(ref: DeploymentRef, deps: Deps) -> dict[str, Any]:
    """One that cannot be looked at now does not hide the others."""
    try:
        return _told(status(ref, deps))
    except AccessError as error:
        return {**_empty(ref), "standing": f"unknown: {error.message.splitlines()[0]}"}


def _empty(ref: DeploymentRef) -> dict[str, Any]:
    place = f"{ref.target} {ref.region}".strip()
    columns = ("standing", "address", "model", "memory", "costs", "since", "account", "expires", "expired")
    return {"name": ref.name, "target": place, **dict.fromkeys(columns, ""), "account": ref.account}


def _told(each: Status) -> dict[str, Any]:
    return {
        **_empty(each.ref),
        "standing": each.standing,
        "address": each.address,
        "model": each.summary.get("model", ""),
        "memory": each.server.memory if each.server else None,
        "costs": each.cost,
        "since": each.since,
        "expires": each.expires,
        "expired": each.expired,
    }
