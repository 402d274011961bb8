"""`lmi cost`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.price_table import is_old, reads_the_list
from lmi_deploy.errors import AccessError, LmiError
from lmi_deploy.workflows.cost import NOT_SEEN, Month, Usage, listed_deployments, usages

_SPARE: Final = ("price_date", "autoscaled", "end", "hourly", "start", "region")
"""Columns that `--json` also contains, least needed first."""


@click.command("cost")
@click.option("--month", metavar="YYYY-MM", help="In UTC; by default the current one.")
@click.option("--region", default="", help="The AWS region; by default that of AWS's own chain.")
@json_option
def command(*, month: str | None, region: str, as_json: bool) -> None:
    """Show what the deployments in AWS ran in a month, and what that cost.

    It is an estimate, from the endpoints that exist now, the records of their deployments, and the on-demand prices
    of now: AWS's own bill counts. The output says what it cannot contain.
    """
    context = open_context(as_json=as_json)
    named = Month.parse(month) if month else None
    listings = listed_deployments(region, context.deps)
    now = context.deps.clock.now()
    chosen = named or Month.parse(f"{now:%Y-%m}")
    chosen.require_started(now)
    unread: list[LmiError] = []
    found = [*usages(chosen, listings, region, context.deps, unread.append)]
    context.view.rows([_row(usage) for usage in found], spare=_SPARE)
    currency = next((usage.price.currency for usage in found if usage.price), "USD")
    total = sum(usage.cost or 0.0 for usage in found)
    projected = total + sum(usage.rest(chosen.end) for usage in found)
    unpriced = sorted({usage.instance for usage in found if usage.price is None})
    so_far = ", so far" if now < chosen.end else ""
    context.view.note(
        f"{chosen.text}{so_far}: {format_price(total, currency)}; an estimate, AWS's bill counts"
    )
    if any(usage.running for usage in found):
        context.view.note(
            f"to the end of the month, if nothing changes: {format_price(projected, currency)} in total"
        )
    for what in (*([f"the price of {', '.join(unpriced)} is unknown"] if unpriced else ()), *NOT_SEEN):
        context.view.note(f"  not in it: {what}")
    old = {(one.instance, one.ref.region) for one in found if one.price and is_old(one.price, now.date())}
    for instance, region in sorted(old):
        context.view.note(f"  the price of {instance} is older than half a year: {reads_the_list(region)}")
    for error in unread:
        what = (
            "not in it: jobs" if isinstance(error, AccessError) else "as AWS describes it, since its creation"
        )
        context.view.note(f"  {what}: {error.message}")
    context.view.result(
        {
            "month": chosen.text,
            "currency": currency,
            "total": round(total, 2),
            "projected": round(projected, 2),
            "unpriced": unpriced,
            "not_seen": list(NOT_SEEN),
        }
    )


def _row(usage: Usage) -> Mapping[str, Any]:
    price = usage.price
    return {
        "name": usage.ref.name,
        "variant": f"{usage.job} job" if usage.job else usage.variant,
        "models": list(usage.models),
        "region": usage.ref.region,
        "instance": usage.instance,
        "count": usage.count,
        "autoscaled": usage.autoscaled,
        "start": usage.start.isoformat(timespec="seconds"),
        "end": "" if usage.running else usage.end.isoformat(timespec="seconds"),
        "hours": round(usage.hours, 1),
        "hourly": price.hourly if price else None,
        "price_date": price.date if price else "",
        "cost": None if usage.cost is None else round(usage.cost, 2),
    }
