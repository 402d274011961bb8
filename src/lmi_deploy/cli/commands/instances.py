"""`lmi instances`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from lmi_deploy.catalog import instances, recorded_prices
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.sizing.instance_selection import Placement

Row = dict[str, Any]
_SPARE = ("network_gbps", "nvme_gb", "vcpu", "usd_per_cache_gib", "verdict")


@click.command("instances")
@click.option("--fits", metavar="RECIPE|MODEL", help="List only types that hold this model, cheapest first.")
@click.option(
    "--context", type=click.IntRange(1), metavar="L", help="With --fits: length of a sequence in tokens."
)
@click.option(
    "--sequences",
    type=click.IntRange(1),
    metavar="N",
    help="With --fits: number of sequences at once.  [default: 1]",
)
@click.option(
    "--region",
    envvar=["AWS_REGION", "AWS_DEFAULT_REGION"],
    default="us-east-1",
    help="Region of the prices.  [default: AWS_REGION, else us-east-1]",
)
@json_option
def command(
    *, fits: str | None, context: int | None, sequences: int | None, region: str, as_json: bool
) -> None:
    """List the instance types that have accelerators; with --fits those that hold a model, with the longest context.

    Types with an unknown price come last.
    """
    command = open_context(as_json=as_json)
    if fits is None:
        rows = list(_types(region))
    else:
        from lmi_deploy.cli.fit_request import read_fit_request
        from lmi_deploy.workflows.fit import matching_instances

        fit_request = read_fit_request(fits, command)
        fit_request = replace(
            fit_request,
            context=context or fit_request.context,
            sequences=sequences or fit_request.sequences,
        )
        rows = [_row(placement) for placement in matching_instances(fit_request, command.deps, region)]
    command.view.rows(rows, spare=_SPARE)
    what = f" that hold {fits}" if fits else " with accelerators"
    command.view.note(f"{len(rows)} instance types{what}; prices per hour in {region}, `-` if unknown")
    if warning := recorded_prices.age_warning(command.deps.clock.now().date()):
        command.view.note(f"warning: {warning}")
    command.view.result({"instances": len(rows), "region": region, "warning": warning})


def _types(region: str) -> Iterator[Row]:
    for name in instances.names():
        found = instances.instance(name)
        if found is None or found.accelerators is None or found.memory is None:
            continue
        existing, price = found.accelerators, recorded_prices.price(name, region)
        yield {
            "instance": name,
            "device": existing.name,
            "devices": existing.count,
            "device_gib": round((existing.usable or existing.memory) / GIB, 2),
            "memory_gib": round(found.memory / GIB),
            "vcpu": found.vcpu,
            "nvme_gb": round((found.nvme or 0) / 10**9),
            "network_gbps": found.network_gbps,
            "usd_per_hour": price.hourly if price else None,
        }


def _row(placement: Placement) -> Row:
    fit, devices, usd = placement.fit, placement.fit.devices, placement.usd_per_cache_gib
    return {
        "instance": placement.instance,
        "device": devices.name if devices else "",
        "devices": devices.count if devices else 0,
        "degree": fit.degree,
        "verdict": fit.verdict,
        "max_context": fit.max_context,
        "kv_tokens": fit.kv_tokens,
        "usd_per_hour": placement.usd_per_hour,
        "usd_per_cache_gib": None if usd is None else round(usd, 3),
    }
