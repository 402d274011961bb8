"""`lmi capacity`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, recipe_argument, recipe_options, require_region
from lmi_deploy.domain.number_text import counted
from lmi_deploy.errors import UsageRefused
from lmi_deploy.ui.table_text import table_width
from lmi_deploy.ui.view import View
from lmi_deploy.workflows.capacity import NOT_KNOWN, CapacityReport, InstanceCapacity, find_capacity

_SPARE = ("price_date", "quota_code", "offered", "needed")


@click.command("capacity")
@recipe_argument
@recipe_options
@click.option(
    "--region",
    "regions",
    multiple=True,
    help="A region to look in; repeatable.  [default: that of the recipe, else that of the credentials]",
)
@click.option("--all-regions", is_flag=True, help="Look in every region that is enabled for the account.")
@json_option
def command(
    *,
    recipe: str | None,
    overlay: str | None,
    sets: tuple[str, ...],
    regions: tuple[str, ...],
    all_regions: bool,
    as_json: bool,
) -> None:
    """Show in which regions the instance types of RECIPE can be had, with quota and price per hour.

    `possible` means that the quota is large enough, that the region offers the type for endpoints, and that the image
    exists there. No API of AWS shows whether instances are free now: that shows only when `lmi up` creates the
    endpoint. What the credentials may not read is `unknown`, with the reason. This command creates nothing.
    """
    if all_regions and regions:
        raise UsageRefused("--all-regions and --region: both name regions", hint="omit one of them")
    for region in regions:
        require_region(region)
    context = open_context(as_json=as_json)
    read = read_recipe(recipe, overlay=overlay, sets=sets)
    if read.endpoint.target != "sagemaker":
        raise UsageRefused(
            f"endpoint.target: {read.endpoint.target} has no instance types",
            hint="add --set endpoint.target=sagemaker",
        )
    found = find_capacity(read, regions, context.deps, all_regions=all_regions, notify=context.view.note)
    found.require_any()
    show_rows(found.rows, context.view)
    _explain(found, context.view)
    context.view.result(
        {
            "possible": found.possible,
            "rows": len(found.rows),
            "unread": found.unread | {region: error.message for region, error in found.failed.items()},
            "free_capacity": "unknown",
        }
    )


def show_rows(found: Sequence[InstanceCapacity], view: View) -> None:
    """The table; in a terminal that is too narrow for the reasons, these are below it, each once."""
    rows = [_row(row) for row in found]
    lines = [
        [str(row[name]) for name in row if name not in _SPARE] for row in ({n: n for n in rows[0]}, *rows)
    ]
    if not view.width or table_width(lines) <= view.width:
        view.rows(rows, spare=_SPARE)
        return
    view.rows([{name: row[name] for name in row if name != "reason"} for row in rows], spare=_SPARE)
    places: dict[str, list[str]] = {}
    for row in found:
        places.setdefault(row.reason, []).append(f"{row.instance} in {row.region}")
    for reason in filter(None, places):
        view.note(f"{reason}: {', '.join(places[reason])}")


def _explain(found: CapacityReport, view: View) -> None:
    for region, reason in found.unread.items():
        view.note(f"{region}: the quotas could not be read: {reason}")
    for region, error in found.failed.items():
        view.note(f"{region}: nothing could be read: {error.message}")
    short = next((row for row in found.rows if row.quota is not None and row.quota < row.needed), None)
    if short is not None:
        view.note("request a higher quota:")
        view.note(
            "  aws service-quotas request-service-quota-increase --service-code sagemaker "
            f"--quota-code {short.quota_code} --desired-value {short.needed} --region {short.region}",
            copied=True,
        )
    total = f"{found.possible} of {counted(len(found.rows), 'placement')} possible"
    view.note(f"{total}; {NOT_KNOWN}")


def _row(row: InstanceCapacity) -> dict[str, Any]:
    """None: unknown."""
    return {
        "region": row.region,
        "instance": row.instance,
        "verdict": row.verdict,
        "quota": None if row.quota is None else int(row.quota),
        "needed": row.needed,
        "usd_per_hour": row.price.hourly if row.price else None,
        "price_date": row.price.date if row.price else None,
        "offered": row.offered,
        "quota_code": row.quota_code or None,
        "reason": row.reason,
    }
