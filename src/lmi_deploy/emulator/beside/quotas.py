"""Service Quotas for endpoint instances, and their enforcement when an endpoint is created or updated."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.store import Row
from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.service_models import service_model
from lmi_deploy.emulator.world import Ask, Operation, World

TABLE: Final = "quotas"
DEFAULT: Final = 100.0
PAGE: Final = 100


def list_quotas(world: World, ask: Ask) -> Mapping[str, Any]:
    _require_sagemaker(ask)
    kinds = _kinds()
    code = ask.params.get("QuotaCode")
    kinds = [kind for kind in kinds if code in (None, code_of(kind))]
    start = int(ask.params.get("NextToken", "0"))
    stop = start + int(ask.params.get("MaxResults", PAGE))
    told = [_quota(world, ask, kind) for kind in kinds[start:stop]]
    return {"Quotas": told, "NextToken": str(stop) if stop < len(kinds) else None}


def get_quota(world: World, ask: Ask) -> Mapping[str, Any]:
    _require_sagemaker(ask)
    kind = next((kind for kind in _kinds() if code_of(kind) == ask.params["QuotaCode"]), None)
    if kind is None:
        raise ApiError(
            "NoSuchResourceException", "The request failed because the specified quota does not exist."
        )
    return {"Quota": _quota(world, ask, kind)}


def require_quota(world: World, region: str, deployment: Row) -> None:
    """ResourceLimitExceeded when the endpoints would hold more instances than the account may have."""
    held, wanted = in_use(world, region), instances_of(deployment)
    for kind, count in sorted(wanted.items()):
        limit = limit_of(world, region, kind)
        if held[kind] + count > limit:
            raise ApiError(
                "ResourceLimitExceeded",
                f"The account-level service limit '{kind} for endpoint usage' is {limit:.0f} Instances, with "
                f"current utilization of {held[kind]} Instances and a request delta of {count} Instances. "
                "Please contact AWS support to request an increase for this limit.",
            )


def instances_of(deployment: Row) -> Counter[str]:
    counts: Counter[str] = Counter()
    for variant in deployment["variants"]:
        kind = variant["params"].get("InstanceType")
        if kind is not None:
            counts[kind] += variant["desired_count"]
    return counts


def in_use(world: World, region: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for _, row in world.table("endpoints", region).rows():
        if row["status"] != "Failed":
            for deployment in (row["serving"], row["pending"]):
                counts.update(instances_of(deployment) if deployment else {})
    return counts


def limit_of(world: World, region: str, kind: str) -> float:
    return float((world.table(TABLE, region).get(kind) or {}).get("value", DEFAULT))


def code_of(kind: str) -> str:
    """Not AWS's own, which are not public as a whole; of their form, and always the same."""
    return f"L-{hashlib.sha256(kind.encode()).hexdigest()[:8].upper()}"


def _kinds() -> list[str]:
    kinds: list[str] = service_model("sagemaker").shape_for("ProductionVariantInstanceType").enum
    return kinds


def _quota(world: World, ask: Ask, kind: str) -> Row:
    code = code_of(kind)
    return {
        "ServiceCode": "sagemaker",
        "ServiceName": "Amazon SageMaker",
        "QuotaArn": world.arn("servicequotas", ask.region, f"sagemaker/{code}"),
        "QuotaCode": code,
        "QuotaName": f"{kind} for endpoint usage",
        "Value": limit_of(world, ask.region, kind),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _require_sagemaker(ask: Ask) -> None:
    if ask.params["ServiceCode"] != "sagemaker":
        raise ApiError(
            "NoSuchResourceException", "The request failed because the specified service does not exist."
        )


OPERATIONS: Final[Mapping[str, Operation]] = {
    "ListServiceQuotas": list_quotas,
    "GetServiceQuota": get_quota,
}
