"""Prices of instances: those known here, and a refresh from AWS's price list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lmi_deploy.catalog.packaged_prices import packaged
from lmi_deploy.domain.price_table import PriceTable, RegionPrices
from lmi_deploy.workflows.dependencies import Dependencies


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


def refresh_prices(regions: Sequence[str], deps: Dependencies) -> Iterator[Refreshed]:
    """Region by region: each is written as soon as all its prices are here, and the earlier table stays until then.

    Without `regions`, the default region of the credentials. AccessError, CloudError, NotFound.
    """
    cloud = deps.cloud(regions[0] if regions else "")
    before = price_table(deps)
    for region in regions or [cloud.caller.region]:
        prices = cloud.prices.listed(region)
        deps.price_cache.write(prices)
        yield _compared(prices, before.of(region))


def _compared(prices: RegionPrices, before: RegionPrices) -> Refreshed:
    now, then = prices.hourly, before.hourly
    return Refreshed(
        prices=prices,
        new=tuple(sorted(set(now) - set(then))),
        gone=tuple(sorted(set(then) - set(now))),
        changed=tuple(sorted(name for name in now if name in then and now[name].hourly != then[name].hourly)),
    )
