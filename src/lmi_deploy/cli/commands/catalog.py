"""`lmi catalog`: the tables that lmi uses, and a refresh of the prices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from lmi_deploy.catalog import (
    failure_classes,
    images,
    instances,
    known_failures,
    options,
    sagemaker_limits,
    server_arguments,
    vendor_messages,
    vllm_arguments,
)
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, require_region
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.price_table import PriceTable
from lmi_deploy.workflows.price_refresh import Refreshed, price_table, refresh_prices

Row = dict[str, Any]


@click.group("catalog", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, *, as_json: bool) -> None:
    """List the tables that lmi uses (images, instance types, options, prices), each with its source and date.

    All tables are part of the lmi package. Only the prices can be replaced: `lmi catalog refresh` reads AWS's current
    ones.
    """
    if ctx.invoked_subcommand is not None:
        return
    context = open_context(as_json=as_json)
    prices, today = price_table(context.deps), context.deps.clock.now().date()
    rows = [*_tables(), *_price_rows(prices)]
    context.view.rows(rows, spare=("source",))
    by_region = [warning for region in prices.regions for warning in prices.warnings(today, region)]
    warnings = list(dict.fromkeys(by_region))
    for warning in warnings:
        context.view.note(f"warning: {warning}")
    context.view.result({"tables": len(rows), "warnings": warnings})


def _tables() -> Iterator[Row]:
    known = sum(1 for name in instances.names() if (found := instances.instance(name)) and found.known)
    types = f"{len(instances.names())} types, {known} described"
    versions = sum(len(images.versions(family)) for family in images.families())
    yield _line("images", images.source(), f"{len(images.families())} families, {versions} versions")
    yield _line("instance types", instances.source(), types)
    yield _line(
        "limits of SageMaker", sagemaker_limits.source(), f"{len(sagemaker_limits.names('regions'))} regions"
    )
    yield _line("options of LMI", options.source(), f"{len(options.versions())} versions")
    yield _line("arguments of vLLM", vllm_arguments.source(), f"{len(vllm_arguments.images())} images")
    for engine, server in server_arguments.SERVERS.items():
        count = len(server_arguments.versions(engine))
        yield _line(
            f"arguments of {engine}", server_arguments.source(engine), f"{count} versions of {server}"
        )
    yield _line("known failures", known_failures.source(), f"{len(known_failures.failures())} failures")
    yield _line(
        "classes of failures", failure_classes.source(), f"{len(failure_classes.failure_classes())} classes"
    )
    messages = vendor_messages.vendor_messages()
    yield _line("messages of vendors", messages.source, f"{messages.count} messages")


def _line(table: str, source: tuple[str, str], entries: str, region: str = "") -> Row:
    return {"table": table, "region": region, "entries": entries, "date": source[1], "source": source[0]}


def _price_rows(prices: PriceTable) -> Iterator[Row]:
    for region, found in sorted(prices.regions.items()):
        days = sorted(price.date for price in found.hourly.values() if price.date)
        span = f" of {days[0]} to {days[-1]}" if days and days[0] != days[-1] else ""
        entries = f"{counted(len(found.hourly), 'price')}{span}"
        yield _line("prices", (found.source, found.date.isoformat()), entries, region)


@command.command("refresh", short_help="Read the current prices of a region from AWS.")
@click.option(
    "--region",
    "regions",
    multiple=True,
    help="The region of the prices; can be repeated.  [default: that of the AWS credentials]",
)
@json_option
def refresh(*, regions: tuple[str, ...], as_json: bool) -> None:
    """Read the current hosting prices of a region from AWS's price list, and store them on this machine.

    From then on, lmi uses them instead of the packaged prices of that region. They are in the folder `prices` of
    LMI_CACHE_HOME (by default ~/.cache/lmi). The list is public: with --region, no credentials are needed. If the
    refresh fails or is interrupted, lmi keeps the earlier prices.
    """
    for region in regions:
        require_region(region)
    context = open_context(as_json=as_json)
    rows = []
    context.view.note("reading AWS's price list")
    for refreshed in refresh_prices(regions, context.deps):
        prices = refreshed.prices
        context.view.note(
            f"{prices.region}: {counted(len(prices.hourly), 'price')}; {_difference(refreshed)}"
        )
        rows.append(_refreshed_row(refreshed))
    context.view.result({"refreshed": rows})


def _difference(refreshed: Refreshed) -> str:
    parts = [
        f"{len(names)} {word}"
        for names, word in (
            (refreshed.changed, "changed"),
            (refreshed.new, "new"),
            (refreshed.gone, "no longer listed"),
        )
        if names
    ]
    return ", ".join(parts) or "none changed"


def _refreshed_row(refreshed: Refreshed) -> Row:
    prices = refreshed.prices
    return {
        "region": prices.region,
        "date": prices.date.isoformat(),
        "prices": len(prices.hourly),
        "changed": list(refreshed.changed),
        "new": list(refreshed.new),
        "gone": list(refreshed.gone),
    }
