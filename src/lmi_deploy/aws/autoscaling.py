"""The port AutoscalingApi: Application Auto Scaling, target tracking on the invocations of each instance."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.domain.sagemaker.resource_settings import VARIANT, Scaling
from lmi_deploy.errors import NotFound

_POLICY: Final = "lmi-invocations"
_METRIC: Final = "SageMakerVariantInvocationsPerInstance"
_NAMESPACE: Final = "sagemaker"
_DIMENSION: Final = "sagemaker:variant:DesiredInstanceCount"


class AwsAutoscaling:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "application-autoscaling")

    def scaling(self, endpoint: str) -> Scaling | None:
        requested = {"ServiceNamespace": _NAMESPACE, "ScalableDimension": _DIMENSION}
        targets = list(
            self._api.pages(
                "describe_scalable_targets",
                _what(endpoint),
                token="NextToken",
                items="ScalableTargets",
                ResourceIds=[_variant(endpoint)],
                **requested,
            )
        )
        if not targets:
            return None
        policies = self._api.pages(
            "describe_scaling_policies",
            _what(endpoint),
            token="NextToken",
            items="ScalingPolicies",
            ResourceId=_variant(endpoint),
            **requested,
        )
        invocations = next((_target(policy) for policy in policies if policy["PolicyName"] == _POLICY), 0)
        target = targets[0]
        return Scaling(
            least=int(target["MinCapacity"]), most=int(target["MaxCapacity"]), invocations=invocations
        )

    def scale(self, endpoint: str, scaling: Scaling) -> None:
        self._about("register_scalable_target", endpoint, MinCapacity=scaling.least, MaxCapacity=scaling.most)
        tracking = {
            "TargetValue": float(scaling.invocations),
            "PredefinedMetricSpecification": {"PredefinedMetricType": _METRIC},
        }
        self._about(
            "put_scaling_policy",
            endpoint,
            PolicyName=_POLICY,
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration=tracking,
        )

    def remove(self, endpoint: str) -> None:
        # The policy by itself, first: its alarms go with it, and not with the target that it belongs to.
        with suppress(NotFound):
            self._about("delete_scaling_policy", endpoint, PolicyName=_POLICY)
        with suppress(NotFound):
            self._about("deregister_scalable_target", endpoint)

    def _about(self, call: str, endpoint: str, **given: Any) -> None:
        self._api(
            call,
            _what(endpoint),
            ServiceNamespace=_NAMESPACE,
            ResourceId=_variant(endpoint),
            ScalableDimension=_DIMENSION,
            **given,
        )


def _what(endpoint: str) -> str:
    return f"scaling of {endpoint}"


def _variant(endpoint: str) -> str:
    return f"endpoint/{endpoint}/variant/{VARIANT}"


def _target(policy: dict[str, Any]) -> int:
    return int(policy.get("TargetTrackingScalingPolicyConfiguration", {}).get("TargetValue", 0))
