"""The port ForeignScalingApi: Application Auto Scaling, for a variant with a name of another tool's choice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignScaling
from lmi_deploy.errors import NotFound

_INVOCATIONS: Final = "SageMakerVariantInvocationsPerInstance"
_NAMED: Final = {
    "ServiceNamespace": "sagemaker",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


class AwsForeignScaling:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "application-autoscaling")

    def read(self, endpoint: str, variant: str) -> ForeignScaling | None:
        target = next(self._targets(endpoint, variant), None)
        if target is None:
            return None
        policies = list(self._policies(endpoint, variant))
        tracked = {str(one["PolicyName"]): _invocations(one) for one in policies}
        return ForeignScaling(
            least=int(target["MinCapacity"]),
            most=int(target["MaxCapacity"]),
            invocations=max(tracked.values(), default=0),
            policies=tuple(sorted(name for name, aim in tracked.items() if not aim)),
        )

    def remove(self, endpoint: str, variant: str) -> None:
        resource, what = _resource(endpoint, variant), f"scaling of {endpoint}"
        if next(self._targets(endpoint, variant), None) is None:
            return
        # The policies by themselves, first: their alarms go with them, and not with the target.
        for policy in self._policies(endpoint, variant):
            with suppress(NotFound):
                self._api(
                    "delete_scaling_policy",
                    what,
                    PolicyName=policy["PolicyName"],
                    ResourceId=resource,
                    **_NAMED,
                )
        with suppress(NotFound):
            self._api("deregister_scalable_target", what, ResourceId=resource, **_NAMED)

    def _targets(self, endpoint: str, variant: str) -> Iterator[Mapping[str, Any]]:
        return self._api.pages(
            "describe_scalable_targets",
            f"scaling of {endpoint}",
            token="NextToken",
            items="ScalableTargets",
            ResourceIds=[_resource(endpoint, variant)],
            **_NAMED,
        )

    def _policies(self, endpoint: str, variant: str) -> Iterator[Mapping[str, Any]]:
        return self._api.pages(
            "describe_scaling_policies",
            f"scaling of {endpoint}",
            token="NextToken",
            items="ScalingPolicies",
            ResourceId=_resource(endpoint, variant),
            **_NAMED,
        )


def _resource(endpoint: str, variant: str) -> str:
    return f"endpoint/{endpoint}/variant/{variant}"


def _invocations(policy: Mapping[str, Any]) -> int:
    """The target of a policy that tracks invocations; else 0."""
    tracking = policy.get("TargetTrackingScalingPolicyConfiguration") or {}
    metric = (tracking.get("PredefinedMetricSpecification") or {}).get("PredefinedMetricType")
    return round(tracking.get("TargetValue", 0)) if metric == _INVOCATIONS else 0
