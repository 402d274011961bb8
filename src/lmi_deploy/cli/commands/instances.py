"""`lmi instances`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmi_deploy.catalog import instances
from lmi_deploy.catalog.instances import Instance
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.shared_options import json_option, region_option, require_region
from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.price_table import PriceTable, RegionPrices
from lmi_deploy.errors import UsageRefused
from lmi_deploy.sizing.fitting_instances import FittingInstance, offered, unpriced

if TYPE_CHECKING:
    from lmi_deploy.bench.cost import MeasuredInstance

Row = dict[str, Any]
_SPARE_MEASURED = ("price_date", "report", "per_million_input_tokens", "currency", "instances")
_SPARE = ("network_gbps", "nvme_gb", "vcpu", "usd_per_cache_gib", "verdict", "device_gib", "price_date")


@click.command("instances")
@click.option("--all", "everything", is_flag=True, help="List types without accelerators, too.")
@click.option("--fits", metavar="RECIPE|MODEL", help="List only types that hold this model, cheapest first.")
@click.option(
    "--context",
    "length",
    type=click.IntRange(1),
    metavar="L",
    help="With --fits: length of a sequence in tokens.",
)
@click.option(
    "--sequences",
    type=click.IntRange(1),
    metavar="N",
    help="With --fits: number of sequences at once.  [default: 1]",
)
@click.option(
    "--bench",
    "reports",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="List the measured cost of a million tokens instead, from a report of `lmi bench`. Repeatable.",
)
@region_option
@json_option
def command(
    *,
    reports: tuple[Path, ...],
    everything: bool,
    fits: str | None,
    length: int | None,
    sequences: int | None,
    region: str,
    as_json: bool,
) -> None:
    """List the instance types that have accelerators, with their price per hour and its date.

    With --fits, list the types that can hold a model, and the longest context on each; those without a known price come
    last. `offered` says whether SageMaker has the type in the region: `yes` if lmi knows a price there; `no` if EC2
    does not have it there, or if AWS's complete list (`lmi catalog refresh`) has no price; otherwise `unknown`.
    """
    from lmi_deploy.workflows.price_refresh import price_table

    if everything and fits:
        raise UsageRefused("--all and --fits cannot be combined", hint="omit one of them")
    require_region(region)
    if reports and (everything or fits):
        raise UsageRefused("--bench cannot be combined with --all or --fits", hint="omit one of them")
    context = open_context(as_json=as_json)
    table = price_table(context.deps)
    if reports:
        _list_measured(reports, table, region, context)
        return
    prices = table.of(region)
    if fits is None:
        described = sorted(filter(None, map(instances.instance, instances.names())), key=_by_size)
        rows = [_row(one, prices) for one in described if everything or one.kind != "cpu"]
    else:
        found = _placements(fits, context, region, length=length, sequences=sequences)
        rows = [_fit_row(placement, prices) for placement in found]
    what = f" that hold {fits}" if fits else "" if everything else " with accelerators"
    _list_types(rows, what, prices, table.warnings(context.deps.clock.now().date(), region), context)


def _by_size(one: Instance) -> tuple[str, int, int, str]:
    """A family's types from the smallest on; by name alone, 12xlarge would come before 2xlarge. Where the table has no
    vCPUs, by the number before `xlarge`."""
    times = one.name.rsplit(".", 1)[1].removesuffix("xlarge")
    return one.family, one.vcpu or 0, int(times) if times.isdigit() else 1, one.name


def _list_types(
    rows: list[Row], what: str, prices: RegionPrices, warnings: Sequence[str], context: CommandContext
) -> None:
    view, region = context.view, prices.region
    view.rows(rows, spare=_SPARE)
    view.note(f"{len(rows)} instance types{what}; {_price_note(prices)}")
    if count := sum(row["offered"] == "unknown" for row in rows):
        view.note(unpriced(count, region))
    for warning in warnings:
        view.note(f"warning: {warning}")
    source = {"source": prices.source, "date": prices.date.isoformat()} if prices.hourly else None
    view.result({"instances": len(rows), "region": region, "prices": source, "warnings": list(warnings)})


def _list_measured(paths: tuple[Path, ...], table: PriceTable, region: str, context: CommandContext) -> None:
    from lmi_deploy.bench.cost import measured_instances
    from lmi_deploy.cli.report_outputs import read_report

    found = measured_instances(
        {str(path): read_report(path) for path in paths}, lambda instance: table.price(instance, region)
    )
    context.view.rows([_measured_row(one) for one in found], spare=_SPARE_MEASURED)
    without = "" if found else ": no point is valid, meets its objectives and has an instance type"
    context.view.note(f"{counted(len(found), 'deployment')} in {counted(len(paths), 'report')}{without}")
    context.view.result({"deployments": len(found), "reports": [str(path) for path in paths]})


def _measured_row(one: MeasuredInstance) -> Row:
    """Costs of a million, with three significant digits."""
    amounts = {
        "per_million_output_tokens": one.per_output_token,
        "per_million_input_tokens": one.per_input_token,
        "per_million_requests": one.per_request,
    }
    return {
        "instance": one.instance,
        "instances": one.count,
        "point": one.point,
        "requests_per_s": _rounded(one.rate, 4),
        "output_tokens_per_s": _rounded(one.output_rate or None, 4),
        **{name: _rounded(amount, 3) for name, amount in amounts.items()},
        "currency": one.price.currency if one.price else None,
        "objectives": one.judgement,
        "price_date": one.price.date if one.price else None,
        "report": one.report,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else float(f"{value:.{digits}g}")


def _price_note(prices: RegionPrices) -> str:
    origin = f"{prices.source}, {prices.date}" if prices.hourly else "no prices are known"
    return f"prices per hour in {prices.region} ({origin}), `-` if unknown"


def _placements(
    fits: str, context: CommandContext, region: str, *, length: int | None, sequences: int | None
) -> tuple[FittingInstance, ...]:
    from lmi_deploy.cli.fit_request import read_fit_request
    from lmi_deploy.workflows.fit import matching_instances

    asked = read_fit_request(fits, context)
    asked = replace(asked, context=length or asked.context, sequences=sequences or asked.sequences)
    return matching_instances(asked, context.deps, region)


def _row(one: Instance, prices: RegionPrices) -> Row:
    """None: unknown."""
    devices = one.accelerators
    return {
        "instance": one.name,
        "device": devices.name if devices else None,
        "devices": devices.count if devices else 0 if one.kind == "cpu" else None,
        "device_gib": round((devices.usable or devices.memory) / GIB, 2) if devices else None,
        "memory_gib": None
        if one.memory is None
        else int(one.memory / GIB)
        if one.memory % GIB == 0
        else one.memory / GIB,
        "vcpu": one.vcpu,
        "nvme_gb": None if one.nvme is None else round(one.nvme / 10**9),
        "network_gbps": one.network_gbps,
        **_offer(one.name, prices),
    }


def _fit_row(placement: FittingInstance, prices: RegionPrices) -> Row:
    fit, devices, usd = placement.fit, placement.fit.devices, placement.usd_per_cache_gib
    return {
        "instance": placement.instance,
        "device": devices.name if devices else "",
        "devices": devices.count if devices else 0,
        "degree": fit.degree,
        "verdict": fit.verdict,
        "max_context": fit.max_context,
        "kv_tokens": fit.kv_tokens,
        **_offer(placement.instance, prices),
        "usd_per_cache_gib": None if usd is None else round(usd, 3),
    }


def _offer(name: str, prices: RegionPrices) -> Row:
    price = prices.hourly.get(name)
    return {
        "offered": offered(name, prices),
        "usd_per_hour": price.hourly if price else None,
        "price_date": price.date if price else None,
    }
