"""The variants of endpoint configs and endpoints as SageMaker has them: the one that serves, and its candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lmi_deploy.domain.sagemaker.resource_settings import (
    CANDIDATE,
    VARIANT,
    CandidateVariant,
    EndpointConfigSettings,
    ObservedCandidate,
    PoolSettings,
)

Variant = Mapping[str, Any]
_WEIGHT: Final = "InitialVariantWeight"
LEAST_OUTSTANDING: Final = "LEAST_OUTSTANDING_REQUESTS"
"""The routing that sends a request to the instance or copy with the fewest in progress. SageMaker's own default
is a random one, which lets requests wait at one instance while another is idle (API reference,
ProductionVariantRoutingConfig; AWS Machine Learning Blog, "Minimize real-time inference latency by using Amazon
SageMaker routing strategies"; both read in November 2026). It is in no setting that is compared: an existing endpoint
gets it with its next update.
"""


def variants_request(settings: EndpointConfigSettings) -> dict[str, Any]:
    """ProductionVariants and ShadowProductionVariants of CreateEndpointConfig.

    A weighted candidate begins without traffic: lmi sets the weights once it has answered the probe. Of a shadow
    variant the weight, as a part of the production variant's, is the share of the requests that are copied to it
    (developer guide, "Testing models with shadow variants"; model-shadow-deployment.md has 1 and 1 for all of them).
    """
    # Inference components get their requests by name.
    weight = None if settings.role else 1.0
    production, shadows = [_variant_request(settings, VARIANT, weight)], []
    if settings.candidate is not None and settings.candidate.shadow_percent:
        share = settings.candidate.shadow_percent / 100
        shadows.append(_variant_request(settings.candidate, CANDIDATE, share))
    elif settings.candidate is not None:
        production.append(_variant_request(settings.candidate, CANDIDATE, 0.0))
    return {
        "ProductionVariants": production,
        **({"ShadowProductionVariants": shadows} if shadows else {}),
    }


def _variant_request(
    settings: EndpointConfigSettings | CandidateVariant, name: str, weight: float | None
) -> dict[str, Any]:
    given: dict[str, Any] = {
        "VariantName": name,
        "ModelName": settings.model,
        "InstanceType": settings.instance,
        "InitialInstanceCount": settings.count,
        _WEIGHT: weight,
        "ModelDataDownloadTimeoutInSeconds": settings.model_download,
        "ContainerStartupHealthCheckTimeoutInSeconds": settings.startup,
        "VolumeSizeInGB": settings.volume_gb,
        "InferenceAmiVersion": settings.host_ami,
        "RoutingConfig": {"RoutingStrategy": LEAST_OUTSTANDING},
    }
    # A weight of 0 is sent: without one it would be 1.
    sent = {key: value for key, value in given.items() if value or (key == _WEIGHT and value is not None)}
    if isinstance(settings, EndpointConfigSettings) and settings.instance_pools is not None:
        del sent["InstanceType"]
        sent |= _pools_request(settings.types, settings.instance_pools.provision_timeout)
    return sent


def _pools_request(types: Sequence[str], provision_timeout: int) -> dict[str, Any]:
    """Instead of InstanceType; developer guide, "Deploy to multiple instance types with instance pools", 2026-11."""
    return {
        "InstancePools": [
            {"InstanceType": name, "Priority": number} for number, name in enumerate(types, start=1)
        ],
        "VariantInstanceProvisionTimeoutInSeconds": provision_timeout,
    }


def variant_types(variant: Variant) -> tuple[str, ...]:
    """Its instance types by priority: one, or those of its instance pools. A pool with a model of its own, which lmi
    never sends, makes them empty.
    """
    pools = variant.get("InstancePools") or ()
    if not pools:
        return (str(variant.get("InstanceType", "")),)
    if any(pool.get("ModelNameOverride") for pool in pools):
        return ("",)
    return tuple(str(pool["InstanceType"]) for pool in sorted(pools, key=lambda pool: int(pool["Priority"])))


def pool_settings(variant: Variant) -> PoolSettings | None:
    """From DescribeEndpointConfig's response."""
    if not variant.get("InstancePools"):
        return None
    seconds = int(variant.get("VariantInstanceProvisionTimeoutInSeconds") or 0)
    return PoolSettings(others=variant_types(variant)[1:], provision_timeout=seconds)


def observed_pools(variant: Variant) -> tuple[tuple[str, int], ...]:
    """From DescribeEndpoint's response."""
    pools = variant.get("InstancePools") or ()
    return tuple((str(pool["InstanceType"]), int(pool["CurrentInstanceCount"])) for pool in pools)


def candidate_settings(response: Mapping[str, Any]) -> CandidateVariant | None:
    """From DescribeEndpointConfig's response."""
    found, shadow = _candidate(response)
    if found is None:
        return None
    weight = float(found.get(_WEIGHT, 1.0))
    return CandidateVariant(
        model=str(found.get("ModelName", "")),
        instance=str(found.get("InstanceType", "")),
        count=int(found.get("InitialInstanceCount", 0)),
        model_download=int(found.get("ModelDataDownloadTimeoutInSeconds", 0)),
        startup=int(found.get("ContainerStartupHealthCheckTimeoutInSeconds", 0)),
        volume_gb=int(found.get("VolumeSizeInGB", 0)),
        host_ami=str(found.get("InferenceAmiVersion", "")),
        shadow_percent=round(100 * weight) if shadow else 0,
    )


def has_own_variants(response: Mapping[str, Any], variant: str) -> bool:
    """Whether it has variants as lmi sends them: the one of this name, alone or with a candidate."""
    names = [one.get("VariantName") for one in response.get("ProductionVariants") or ()]
    if names == [variant]:
        return True
    candidate, shadow = _candidate(response)
    weight = 1.0 if candidate is None else float(candidate.get(_WEIGHT, 1.0))
    return names == [variant, CANDIDATE] and not shadow and weight == 0


def main_variant(variants: Sequence[Variant]) -> Variant:
    """The one that serves: lmi's own, else the first one of another tool's."""
    return next(
        (one for one in variants if one.get("VariantName") == VARIANT), variants[0] if variants else {}
    )


def observed_candidate(described: Mapping[str, Any]) -> ObservedCandidate | None:
    """From DescribeEndpoint's response, or the PendingDeploymentSummary in it."""
    production = described.get("ProductionVariants") or ()
    found, shadow = _candidate(described)
    main = main_variant(production)
    if found is None or main.get("VariantName") != VARIANT:
        return None
    own, served = float(found.get("DesiredWeight") or 0), float(main.get("DesiredWeight") or 0)
    whole = served if shadow else own + served
    return ObservedCandidate(
        shadow=shadow,
        percent=round(100 * own / whole) if whole else 0,
        count=int(found.get("CurrentInstanceCount") or 0),
        desired_count=int(found.get("DesiredInstanceCount") or 0),
    )


def traffic_request(percent: int) -> list[dict[str, Any]]:
    """DesiredWeightsAndCapacities: both weights, whatever they were."""
    return [
        {"VariantName": VARIANT, "DesiredWeight": float(100 - percent)},
        {"VariantName": CANDIDATE, "DesiredWeight": float(percent)},
    ]


def _candidate(described: Mapping[str, Any]) -> tuple[Variant | None, bool]:
    """And whether it is a shadow variant."""
    for key, shadow in (("ProductionVariants", False), ("ShadowProductionVariants", True)):
        for one in described.get(key) or ():
            if one.get("VariantName") == CANDIDATE:
                return one, shadow
    return None, False
