"""Service Quotas for the instances of endpoints and of processing jobs, and their enforcement."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.hosting.instance_pools import SERVERLESS, types_of
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.service_models import service_model

TABLE: Final = "quotas"
DEFAULT: Final = 100.0
PAGE: Final = 100
_OF_JOBS: Final = " for processing job usage"


def list_quotas(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    _require_sagemaker(request)
    code = request.params.get("QuotaCode")
    quotas = [quota for quota in _quotas() if code in (None, code_of(quota))]
    start = int(request.params.get("NextToken", "0"))
    stop = start + int(request.params.get("MaxResults", PAGE))
    messages = [_quota(context, request, quota) for quota in quotas[start:stop]]
    return {"Quotas": messages, "NextToken": str(stop) if stop < len(quotas) else None}


def get_quota(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    _require_sagemaker(request)
    quota = next((quota for quota in _quotas() if code_of(quota) == request.params["QuotaCode"]), None)
    if quota is None:
        raise ApiError(
            "NoSuchResourceException", "The request failed because the specified quota does not exist."
        )
    return {"Quota": _quota(context, request, quota)}


def require_quota(context: EmulatorContext, region: str, deployment: Row) -> None:
    """ResourceLimitExceeded if the endpoints would have more instances than the account may have."""
    _require(context, region, required=instances_of(deployment), existing=in_use(context, region))


def require_growth(context: EmulatorContext, region: str, kinds: Sequence[str], more: int) -> None:
    """The same for instances that are added to an endpoint, of one of these types."""
    if SERVERLESS not in kinds and more > 0:
        required = Counter(dict.fromkeys(kinds, more))
        _require(context, region, required=required, existing=in_use(context, region))


def require_job_quota(context: EmulatorContext, region: str, params: Mapping[str, Any]) -> None:
    """The same for processing jobs, which have quotas of their own."""
    _require(context, region, required=_instances_of_job(params), existing=_in_jobs(context, region))


def _require(
    context: EmulatorContext, region: str, *, required: Counter[str], existing: Counter[str]
) -> None:
    for quota, count in sorted(required.items()):
        limit = limit_of(context, region, quota)
        if existing[quota] + count > limit:
            raise ApiError(
                "ResourceLimitExceeded",
                f"The account-level service limit '{name_of(quota)}' is {limit:.0f} Instances, with "
                f"current utilization of {existing[quota]} Instances and a request delta of {count} Instances. "
                "Please contact AWS support to request an increase for this limit.",
            )


def instances_of(deployment: Row) -> Counter[str]:
    """With instance pools, those that run; while none does, any pool may have to provide all. What SageMaker requires
    of a pool's quota is not documented: only a lack of capacity is said to lead to the next pool.
    """
    counts: Counter[str] = Counter()
    for variant in (*deployment["variants"], *deployment["shadows"]):
        kinds = types_of(variant["params"])
        if running := variant.get("pools"):
            counts.update(running)
        elif kinds != (SERVERLESS,):
            counts.update(dict.fromkeys(kinds, variant["desired_count"]))
    return counts


def in_use(context: EmulatorContext, region: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for _, row in context.table("endpoints", region).rows():
        if row["status"] != "Failed":
            for deployment in (row["serving"], row["pending"]):
                counts.update(instances_of(deployment) if deployment else {})
    return counts


def _instances_of_job(params: Mapping[str, Any]) -> Counter[str]:
    cluster = params["ProcessingResources"]["ClusterConfig"]
    return Counter({f"{cluster['InstanceType']}{_OF_JOBS}": cluster["InstanceCount"]})


def _in_jobs(context: EmulatorContext, region: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for _, row in context.table("processing-jobs", region).rows():
        if row["status"] in ("InProgress", "Stopping"):
            counts.update(_instances_of_job(row["params"]))
    return counts


def name_of(quota: str) -> str:
    """A quota for endpoints is identified by its instance type, any other by its name."""
    return quota if " for " in quota else f"{quota} for endpoint usage"


def limit_of(context: EmulatorContext, region: str, quota: str) -> float:
    return float((context.table(TABLE, region).get(quota) or {}).get("value", DEFAULT))


def code_of(quota: str) -> str:
    """Not AWS's own, which are not public as a whole; of their form, and always the same."""
    return f"L-{hashlib.sha256(quota.encode()).hexdigest()[:8].upper()}"


def _quotas() -> list[str]:
    model = service_model("sagemaker")
    hosted, processing = ("ProductionVariantInstanceType", "ProcessingInstanceType")
    return [
        *model.shape_for(hosted).enum,
        *(f"{kind}{_OF_JOBS}" for kind in model.shape_for(processing).enum),
    ]


def _quota(context: EmulatorContext, request: ApiRequest, quota: str) -> Row:
    code = code_of(quota)
    return {
        "ServiceCode": "sagemaker",
        "ServiceName": "Amazon SageMaker",
        "QuotaArn": context.arn("servicequotas", request.region, f"sagemaker/{code}"),
        "QuotaCode": code,
        "QuotaName": name_of(quota),
        "Value": limit_of(context, request.region, quota),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _require_sagemaker(request: ApiRequest) -> None:
    if request.params["ServiceCode"] != "sagemaker":
        raise ApiError(
            "NoSuchResourceException", "The request failed because the specified service does not exist."
        )


OPERATIONS: Final[Mapping[str, Operation]] = {
    "ListServiceQuotas": list_quotas,
    "GetServiceQuota": get_quota,
    "ListAWSDefaultServiceQuotas": list_quotas,
}
