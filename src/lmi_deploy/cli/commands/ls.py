"""`lmi ls`."""

from __future__ import annotations

from typing import Any

import click

from lmi_deploy.api.deployment_lookup import known
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.domain.deployment_list import ListedDeployment
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import UsageRefused
from lmi_deploy.ui.view import View
from lmi_deploy.workflows.list_deployments import (
    MOST_READ,
    DeploymentRow,
    DeploymentRows,
    ListScope,
    list_deployments,
)
from lmi_deploy.workflows.status import Status

_SPARE = ("account", "created", "adapters", "address", "since", "by", "memory")
"""Columns that `lmi status` also shows, least needed first."""
_READ = ("address", "model", "adapters", "memory", "costs", "since", "by")
"""Columns that need a deployment's record or its settings."""


@click.command("ls")
@click.option(
    "--all",
    "everywhere",
    is_flag=True,
    help="Also list all deployments in the account's region, by their tags.",
)
@click.option(
    "--long",
    is_flag=True,
    help=f"Read the record of each deployment in AWS, also of more than {MOST_READ}: about six requests each.",
)
@click.option("--region", "regions", multiple=True, help="Of AWS, only this region; repeatable.")
@click.option("--all-regions", is_flag=True, help="With --all: every region that is enabled for the account.")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    help="With --all: the AWS profile to use; repeatable, one account each.",
)
@json_option
def command(
    *,
    everywhere: bool,
    long: bool,
    regions: tuple[str, ...],
    all_regions: bool,
    profiles: tuple[str, ...],
    as_json: bool,
) -> None:
    """List the deployments that run on this machine or were deployed from it.

    With --all, also list deployments in AWS that other machines created or that an interrupted run left. Then the
    columns are those that AWS's lists contain: `standing` is SageMaker's own status of the endpoint, and model, costs
    and the like are empty (null in JSON) where only a record contains them. --long or `lmi status NAME` reads it.

    --region, --all-regions and --profile list several regions and accounts at once. A region that cannot be listed is
    reported after the others, with exit code 1.
    """
    context = open_context(as_json=as_json)
    if (all_regions or profiles) and not everywhere:
        raise UsageRefused("--all-regions, --profile: they need --all", hint="add --all")
    if all_regions and regions:
        raise UsageRefused("--all-regions and --region: both name regions", hint="omit one of them")
    scope = ListScope(
        everywhere=everywhere,
        long=long,
        regions=tuple(dict.fromkeys(regions)),
        all_regions=all_regions,
        profiles=tuple(dict.fromkeys(profiles)),
    )
    found = list_deployments(known(context.deps), scope, context.deps, notify=context.view.note)
    rows = [{**_row(row), **({"profile": row.profile} if profiles else {})} for row in found.rows]
    context.view.rows(rows, spare=_SPARE)
    _explain(found, rows, context.view)
    found.require_complete()
    context.view.result({"deployments": len(found.rows)})


def _explain(found: DeploymentRows, rows: list[dict[str, Any]], view: View) -> None:
    if not found.rows and not found.failed:
        view.note("no deployments on this machine; `lmi up RECIPE` creates one")
    for reason in found.unlisted_reasons:
        view.note(f"the standing of endpoints is unknown: {reason}")
    if found.from_lists:
        lacking = [name for name in _READ if not any(row[name] for row in rows)]
        view.note(
            f"{counted(found.from_lists, 'deployment')} from AWS's lists, without {', '.join(lacking or _READ)}: "
            "`lmi status NAME` or --long reads these; tags and expiry may be some minutes old"
        )


def _row(row: DeploymentRow) -> dict[str, Any]:
    if row.status is not None:
        return _status_of(row.status)
    if row.listed is not None:
        return _listed(row.listed)
    return {**_empty(row.ref), "standing": f"unknown: {row.unknown_reason.splitlines()[0]}"}


def _listed(each: ListedDeployment) -> dict[str, Any]:
    """What the lists do not tell is null, and not empty."""
    return {
        **_empty(each.ref),
        **dict.fromkeys(_READ),
        "standing": each.status or ("unknown" if each.tagged_endpoint else "no endpoint"),
        "model": each.model or ("a shared endpoint" if each.shared == "endpoint" else None),
        "created": each.created,
        "expires": each.expires,
        "expired": each.expired,
    }


def _empty(ref: DeploymentRef) -> dict[str, Any]:
    place = f"{ref.target} {ref.region}".strip()
    columns = (
        "standing",
        "address",
        "model",
        "adapters",
        "memory",
        "costs",
        "created",
        "since",
        "by",
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
        "created": each.endpoint.created if each.endpoint else "",
        "since": each.since,
        "by": each.author.words,
        "expires": each.expires,
        "expired": each.expired,
    }
