"""Prices of instances: those known here, and a refresh from AWS's price list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lmi_deploy.catalog.packaged_prices import packaged
from lmi_deploy.domain.price_table import PriceTable, RegionPrices
from lmi_deploy.errors import AccessError, LmiError, UsageRefused
from lmi_deploy.workflows.dependencies import Dependencies

_SECONDS: Final = 10.0
"""For a list that the user did not ask for."""
_LATER: Final = (
    "lmi goes on with the prices that it has, and tries again tomorrow (never with LMI_PRICE_REFRESH=off)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """The new prices of a region, against those that were known before."""

    prices: RegionPrices
    new: tuple[str, ...]
    gone: tuple[str, ...]
    changed: tuple[str, ...]


def price_table(deps: Dependencies) -> PriceTable:
    """The packaged prices, with the regions that the user refreshed in place of theirs. Without a network."""
    return packaged().overlaid(deps.price_cache.read())


def current_prices(region: str, deps: Dependencies) -> PriceTable:
    """The same, after AWS's list of the region was read, if the prices here are older than a week; a problem of the
    table if it cannot be, soon.
    """
    try:
        if deps.price_cache.start_refresh(region, deps.clock.now().date()):
            deps.price_cache.write(deps.price_list.listed(region, seconds=_SECONDS))
    except LmiError as reason:
        table = price_table(deps)
        return replace(table, problems=(*table.problems, f"{reason.message}; {_LATER}"))
    return price_table(deps)


def refresh_prices(regions: Sequence[str], deps: Dependencies) -> Iterator[Refreshed]:
    """Region by region: each is written as soon as all its prices are here, and the earlier table stays until then.

    Without `regions`, the default region of the credentials. CloudError, NotFound.
    """
    before = price_table(deps)
    for region in regions or [_own_region(deps)]:
        prices = deps.price_list.listed(region)
        deps.price_cache.write(prices)
        yield _compared(prices, before.of(region))


def _own_region(deps: Dependencies) -> str:
    try:
        return deps.cloud("").caller.region
    except AccessError as absent:
        raise UsageRefused(
            f"--region: not given, and the one of the credentials is unknown: {absent.message}",
            hint="name it: the price list itself needs no credentials",
        ) from absent


def _compared(prices: RegionPrices, before: RegionPrices) -> Refreshed:
    now, then = prices.hourly, before.hourly
    return Refreshed(
        prices=prices,
        new=tuple(sorted(set(now) - set(then))),
        gone=tuple(sorted(set(then) - set(now))),
        changed=tuple(sorted(name for name in now if name in then and now[name].hourly != then[name].hourly)),
    )
