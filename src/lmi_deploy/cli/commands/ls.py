"""`lmi ls`."""

from __future__ import annotations

from typing import Any

import click

from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.deployment_lookup import known
from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import AccessError
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.status import Status, status

_SPARE = ("account", "adapters", "address", "since", "memory")
"""Columns that `lmi status` also shows, least needed first."""


@click.command("ls")
@click.option(
    "--all",
    "everywhere",
    is_flag=True,
    help="Also list all deployments in the account's region, by their tags.",
)
@click.option("--region", default="", help="With --all: the region.")
@json_option
def command(*, everywhere: bool, region: str, as_json: bool) -> None:
    """List the deployments that run on this machine or were deployed from it.

    With --all, also list deployments in AWS that other machines created or that an interrupted run left.
    """
    context = open_context(as_json=as_json)
    rows = {_key(ref): _row(ref, context.deps) for ref in known(context.deps)}
    if everywhere:
        listed = (ref for target in context.deps.targets.values() for ref in target.list_all(region))
        found = {_key(ref): ref for ref in listed}
        more = {key: _row(ref, context.deps) for key, ref in found.items() if key not in rows}
        # The tag search still lists deleted resources for some minutes.
        rows |= {key: row for key, row in more.items() if row["standing"] != "absent"}
    context.view.rows([*rows.values()], spare=_SPARE)
    if not rows:
        context.view.note("no deployments on this machine; `lmi up RECIPE` creates one")
    context.view.result({"deployments": len(rows)})


def _key(ref: DeploymentRef) -> tuple[str, str, str, str]:
    return ref.name, ref.target, ref.region, ref.account


def _row(ref: DeploymentRef, deps: Dependencies) -> dict[str, Any]:
    """A deployment that cannot be read now does not hide the others."""
    try:
        return _status_of(status(ref, deps))
    except AccessError as error:
        return {**_empty(ref), "standing": f"unknown: {error.message.splitlines()[0]}"}


def _empty(ref: DeploymentRef) -> dict[str, Any]:
    place = f"{ref.target} {ref.region}".strip()
    columns = (
        "standing",
        "address",
        "model",
        "adapters",
        "memory",
        "costs",
        "since",
        "account",
        "expires",
        "expired",
    )
    return {"name": ref.name, "target": place, **dict.fromkeys(columns, ""), "account": ref.account}


def _status_of(each: Status) -> dict[str, Any]:
    return {
        **_empty(each.ref),
        "standing": each.standing,
        "address": each.address,
        "model": each.summary.get("model", ""),
        "adapters": ", ".join(
            key.removeprefix("adapter.") for key in each.summary if key.startswith("adapter.")
        ),
        "memory": each.server.memory if each.server else None,
        "costs": each.cost,
        "since": each.since,
        "expires": each.expires,
        "expired": each.expired,
    }
