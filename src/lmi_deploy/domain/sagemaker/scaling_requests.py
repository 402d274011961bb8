"""Scaling settings as requests to Application Auto Scaling, and back.

Sources: its API reference, PutScalingPolicy (TargetTrackingScalingPolicyConfiguration, CustomizedMetricSpecification),
PutScheduledAction; PredefinedMetricSpecification for the metrics by dimension. Read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.recipe_scaling_keys import COOLDOWN, ScheduledBounds, TrackedMetric
from lmi_deploy.domain.sagemaker.resource_settings import VARIANT
from lmi_deploy.domain.sagemaker.scaling_settings import ScalableKind, Scaling
from lmi_deploy.domain.sagemaker.step_scaling import STEP_POLICY, step_from

OWN: Final = "lmi-"
INVOCATIONS_POLICY: Final = f"{OWN}invocations"
_CONCURRENCY_POLICY: Final = f"{OWN}concurrency"
_METRIC_POLICY: Final = f"{OWN}metric"
_BACKLOG_POLICY: Final = f"{OWN}backlog"
_RESOURCES: Final[Mapping[ScalableKind, str]] = {
    "variant": f"endpoint/{{}}/variant/{VARIANT}",
    "component": "inference-component/{}",
}
_DIMENSIONS: Final[Mapping[ScalableKind, str]] = {
    "variant": "sagemaker:variant:DesiredInstanceCount",
    "component": "sagemaker:inference-component:DesiredCopyCount",
}
_INVOCATIONS: Final[Mapping[ScalableKind, str]] = {
    "variant": "SageMakerVariantInvocationsPerInstance",
    "component": "SageMakerInferenceComponentInvocationsPerCopy",
}
_CONCURRENCY: Final[Mapping[ScalableKind, str]] = {
    "variant": "SageMakerVariantConcurrentRequestsPerModelHighResolution",
    "component": "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution",
}


def resource_of(name: str, of: ScalableKind) -> str:
    return _RESOURCES[of].format(name)


def dimension_of(of: ScalableKind) -> str:
    return _DIMENSIONS[of]


def tracking_requests(name: str, scaling: Scaling, of: ScalableKind) -> dict[str, dict[str, Any]]:
    """By the policy's name."""
    found: dict[str, dict[str, Any]] = {}
    if scaling.invocations:
        found[INVOCATIONS_POLICY] = {
            "TargetValue": float(scaling.invocations),
            "PredefinedMetricSpecification": {"PredefinedMetricType": _INVOCATIONS[of]},
        }
    if scaling.concurrency:
        found[_CONCURRENCY_POLICY] = {
            "TargetValue": float(scaling.concurrency),
            "PredefinedMetricSpecification": {"PredefinedMetricType": _CONCURRENCY[of]},
        }
    if scaling.backlog:
        found[_BACKLOG_POLICY] = {
            "TargetValue": float(scaling.backlog),
            "CustomizedMetricSpecification": {
                "Namespace": "AWS/SageMaker",
                "MetricName": "ApproximateBacklogSizePerInstance",
                "Statistic": "Average",
                "Dimensions": [{"Name": "EndpointName", "Value": name}],
            },
        }
    if scaling.metric:
        found[_METRIC_POLICY] = {
            "TargetValue": scaling.metric.target,
            "CustomizedMetricSpecification": _metric_request(scaling.metric),
        }
    return {policy: {**tracking, **_pace(scaling)} for policy, tracking in found.items()}


def _pace(scaling: Scaling) -> dict[str, Any]:
    pace: dict[str, Any] = {} if scaling.scale_in else {"DisableScaleIn": True}
    if (scaling.scale_in_cooldown, scaling.scale_out_cooldown) != (COOLDOWN, COOLDOWN):
        pace["ScaleInCooldown"] = scaling.scale_in_cooldown
        pace["ScaleOutCooldown"] = scaling.scale_out_cooldown
    return pace


def _metric_request(metric: TrackedMetric) -> dict[str, Any]:
    request: dict[str, Any] = {
        "Namespace": metric.namespace,
        "MetricName": metric.name,
        "Statistic": metric.statistic,
    }
    if metric.dimensions:
        request["Dimensions"] = [{"Name": name, "Value": value} for name, value in metric.dimensions]
    return request


def scheduled_requests(scaling: Scaling) -> dict[str, dict[str, Any]]:
    """By the action's name."""
    return {f"{OWN}{each.name}": _scheduled_request(each) for each in scaling.scheduled}


def _scheduled_request(bounds: ScheduledBounds) -> dict[str, Any]:
    action = {"MinCapacity": bounds.min, "MaxCapacity": bounds.max}
    request: dict[str, Any] = {
        "Schedule": bounds.schedule,
        "ScalableTargetAction": {name: value for name, value in action.items() if value is not None},
    }
    return request if bounds.schedule.startswith("rate(") else {**request, "Timezone": bounds.timezone}


def scaling_from(
    target: Mapping[str, Any],
    policies: Sequence[Mapping[str, Any]],
    scheduled: Sequence[Mapping[str, Any]],
    alarms: Sequence[Mapping[str, Any]] = (),
) -> Scaling:
    """What these responses describe; of policies and actions only those of lmi."""
    tracking = {
        policy["PolicyName"]: policy["TargetTrackingScalingPolicyConfiguration"]
        for policy in policies
        if "TargetTrackingScalingPolicyConfiguration" in policy
    }
    steps = (step_from(policy, alarms) for policy in policies if policy["PolicyName"].startswith(STEP_POLICY))
    any_policy: Mapping[str, Any] = next(iter(tracking.values()), {})
    return Scaling(
        least=int(target["MinCapacity"]),
        most=int(target["MaxCapacity"]),
        invocations=int(tracking.get(INVOCATIONS_POLICY, {}).get("TargetValue", 0)),
        concurrency=float(tracking.get(_CONCURRENCY_POLICY, {}).get("TargetValue", 0)),
        backlog=float(tracking.get(_BACKLOG_POLICY, {}).get("TargetValue", 0)),
        steps=tuple(sorted(filter(None, steps), key=lambda each: each.name)),
        metric=_metric(tracking[_METRIC_POLICY]) if _METRIC_POLICY in tracking else None,
        scale_in=not any_policy.get("DisableScaleIn", False),
        scale_in_cooldown=int(any_policy.get("ScaleInCooldown", COOLDOWN)),
        scale_out_cooldown=int(any_policy.get("ScaleOutCooldown", COOLDOWN)),
        scheduled=tuple(sorted(map(_scheduled, scheduled), key=lambda each: each.name)),
        uneven=_uneven(tracking),
    )


def _uneven(tracking: Mapping[str, Mapping[str, Any]]) -> Pairs:
    """The pace of each policy, if they are not all the same."""
    paces = {policy.removeprefix(OWN): _pace_words(each) for policy, each in tracking.items()}
    return tuple(sorted(paces.items())) if len({*paces.values()}) > 1 else ()


def _pace_words(policy: Mapping[str, Any]) -> str:
    down, up = policy.get("ScaleInCooldown", COOLDOWN), policy.get("ScaleOutCooldown", COOLDOWN)
    never = ", never removes" if policy.get("DisableScaleIn", False) else ""
    return f"in {down} s, out {up} s{never}"


def _metric(tracking: Mapping[str, Any]) -> TrackedMetric | None:
    found = tracking.get("CustomizedMetricSpecification", {})
    if "MetricName" not in found:
        return None  # changed by another tool to an expression over several metrics
    dimensions = sorted((each["Name"], each["Value"]) for each in found.get("Dimensions", ()))
    return TrackedMetric(
        namespace=found["Namespace"],
        name=found["MetricName"],
        target=float(tracking["TargetValue"]),
        statistic=found["Statistic"],
        dimensions=tuple(dimensions),
    )


def _scheduled(action: Mapping[str, Any]) -> ScheduledBounds:
    bounds = action.get("ScalableTargetAction", {})
    return ScheduledBounds(
        name=action["ScheduledActionName"].removeprefix(OWN),
        schedule=action["Schedule"],
        timezone=action.get("Timezone", "UTC"),
        min=bounds.get("MinCapacity"),
        max=bounds.get("MaxCapacity"),
    )
