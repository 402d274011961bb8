"""Instance pools of a variant: which instance types it has, and which one SageMaker takes next.

Source: SageMaker developer guide, "Deploy to multiple instance types with instance pools" (read in November 2026):
the pools are tried by priority, and an insufficient capacity error leads to the next one, "until the required number of
instances is provisioned, all pools are exhausted, or the total provisioning timeout is reached"; when instances are
removed, those of the lowest priority go first (AWS machine learning blog, "Capacity-aware inference", 4 May 2026). How
long one attempt takes is not documented.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed
from lmi_deploy.emulator.record_store import Row

SERVERLESS: Final = "serverless"
NO_CAPACITY: Final = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
)
"""AWS's FailureReason of an endpoint with one type (reports); that of instance pools is not documented."""
_CAPACITY: Final = "capacity"


def types_of(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Of a production variant, by priority."""
    pools = sorted(params.get("InstancePools", ()), key=lambda pool: int(pool["Priority"]))
    return tuple(pool["InstanceType"] for pool in pools) or (params.get("InstanceType", SERVERLESS),)


async def take_capacity(variant: Row, count: int, attempt: Callable[[str], Awaitable[None]]) -> str:
    """The type of `count` further instances: the first whose `attempt` does not fail for lack of capacity.

    HostingFailed if none is left, or for any other reason.
    """
    lacking: HostingFailed | None = None
    for kind in types_of(variant["params"]):
        try:
            await attempt(kind)
        except HostingFailed as exc:
            if _CAPACITY not in exc.reason.lower():
                raise
            lacking = exc
            continue
        if "InstancePools" in variant["params"]:
            pools = variant.setdefault("pools", {})
            pools[kind] = pools.get(kind, 0) + count
        return kind
    assert lacking is not None
    raise lacking


def running_type(variant: Row) -> str:
    """With instance pools, the type of highest priority that it has now; else empty."""
    pools = variant.get("pools", {})
    return next((kind for kind in types_of(variant["params"]) if pools.get(kind)), "")


def running_count(variant: Row) -> int:
    """Of all its types."""
    return sum(variant["pools"].values()) if "pools" in variant else int(variant["count"])


def remove_surplus(variant: Row) -> None:
    """Down to its count, those of the lowest priority first."""
    pools = variant.get("pools", {})
    surplus = sum(pools.values()) - int(variant["count"])
    for kind in reversed(types_of(variant["params"])):
        removed = max(0, min(surplus, pools.get(kind, 0)))
        if removed:
            pools[kind] -= removed
            surplus -= removed


def described_pools(variant: Row) -> list[Row] | None:
    """InstancePools of a ProductionVariantSummary; None of a variant with one type."""
    if "InstancePools" not in variant["params"]:
        return None
    running = variant.get("pools", {})
    return [
        {"InstanceType": kind, "CurrentInstanceCount": running.get(kind, 0)}
        for kind in types_of(variant["params"])
    ]
