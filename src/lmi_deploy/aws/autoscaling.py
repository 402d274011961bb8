"""The port AutoscalingApi: Application Auto Scaling of variants and of inference components.

Names of policies and of scheduled actions begin with `lmi-`: others are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.aws.metric_alarms import MetricAlarms
from lmi_deploy.domain.sagemaker.scaling_requests import (
    INVOCATIONS_POLICY,
    OWN,
    dimension_of,
    resource_of,
    scaling_from,
    scheduled_requests,
    tracking_requests,
)
from lmi_deploy.domain.sagemaker.scaling_settings import ScalableKind, Scaling
from lmi_deploy.domain.sagemaker.step_scaling import (
    STEP_POLICY,
    step_alarm_name,
    step_alarm_request,
    step_alarms,
    step_policy_request,
)
from lmi_deploy.errors import NotFound

_NAMESPACE: Final = "sagemaker"


class AwsAutoscaling:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "application-autoscaling")
        self._alarms = MetricAlarms(access)

    def scaling(self, name: str, of: ScalableKind = "variant") -> Scaling | None:
        targets = self._all(
            "describe_scalable_targets", "ScalableTargets", name, of, ResourceIds=[resource_of(name, of)]
        )
        if not targets:
            return None
        policies = self._policies(name, of)
        has_steps = any(policy["PolicyName"].startswith(STEP_POLICY) for policy in policies)
        alarms = self._step_alarms(name, of) if has_steps else []
        return scaling_from(targets[0], policies, self._scheduled(name, of), alarms)

    def scale(self, name: str, scaling: Scaling, of: ScalableKind = "variant") -> None:
        bounds = {"MinCapacity": scaling.least, "MaxCapacity": scaling.most}
        self._about("register_scalable_target", name, of, **bounds)
        policies, scheduled = tracking_requests(name, scaling, of), scheduled_requests(scaling)
        for policy, tracking in policies.items():
            self._about(
                "put_scaling_policy",
                name,
                of,
                PolicyName=policy,
                PolicyType="TargetTrackingScaling",
                TargetTrackingScalingPolicyConfiguration=tracking,
            )
        self._put_steps(name, scaling, of)
        for action, request in scheduled.items():
            self._about("put_scheduled_action", name, of, ScheduledActionName=action, **request)
        # After those that replace them: in between, nothing would scale.
        existing = [policy["PolicyName"] for policy in self._policies(name, of)]
        desired = {*policies, *(f"{STEP_POLICY}{step.name}" for step in scaling.steps)}
        if any(each.startswith(STEP_POLICY) for each in existing):
            kept = {step_alarm_name(name, step.name) for step in scaling.steps}
            self._delete_step_alarms(name, of, kept)
        self._delete_policies(name, of, (each for each in existing if each not in desired))
        actions = [action["ScheduledActionName"] for action in self._scheduled(name, of)]
        self._delete_scheduled(name, of, (each for each in actions if each not in scheduled))

    def remove(self, name: str, of: ScalableKind = "variant") -> None:
        self._delete_step_alarms(name, of, set())
        # The policies by themselves, first: their alarms go with them, and not with the target that they belong to.
        existing = (policy["PolicyName"] for policy in self._policies(name, of))
        self._delete_policies(name, of, dict.fromkeys((INVOCATIONS_POLICY, *existing)))
        with suppress(NotFound):
            self._about("deregister_scalable_target", name, of)

    def _put_steps(self, name: str, scaling: Scaling, of: ScalableKind) -> None:
        for step in scaling.steps:
            put = self._about(
                "put_scaling_policy",
                name,
                of,
                PolicyName=f"{STEP_POLICY}{step.name}",
                PolicyType="StepScaling",
                StepScalingPolicyConfiguration=step_policy_request(step),
            )
            self._alarms.put(step_alarm_request(name, step, put["PolicyARN"]))

    def _step_alarms(self, name: str, of: ScalableKind) -> list[dict[str, Any]]:
        """Those whose action is a policy of this target: the beginning of a name may be that of another one's."""
        found = self._alarms.starting_with(step_alarms(name), name)
        mark = f":resource/{_NAMESPACE}/{resource_of(name, of)}:"
        return [alarm for alarm in found if any(mark in action for action in alarm.get("AlarmActions", ()))]

    def _delete_step_alarms(self, name: str, of: ScalableKind, kept: set[str]) -> None:
        names = [alarm["AlarmName"] for alarm in self._step_alarms(name, of)]
        self._alarms.delete([each for each in names if each not in kept], name)

    def _policies(self, name: str, of: ScalableKind) -> list[dict[str, Any]]:
        resource = {"ResourceId": resource_of(name, of)}
        found = self._all("describe_scaling_policies", "ScalingPolicies", name, of, **resource)
        return [policy for policy in found if policy["PolicyName"].startswith(OWN)]

    def _scheduled(self, name: str, of: ScalableKind) -> list[dict[str, Any]]:
        resource = {"ResourceId": resource_of(name, of)}
        found = self._all("describe_scheduled_actions", "ScheduledActions", name, of, **resource)
        return [action for action in found if action["ScheduledActionName"].startswith(OWN)]

    def _delete_policies(self, name: str, of: ScalableKind, policies: Iterable[str]) -> None:
        for policy in policies:
            with suppress(NotFound):
                self._about("delete_scaling_policy", name, of, PolicyName=policy)

    def _delete_scheduled(self, name: str, of: ScalableKind, actions: Iterable[str]) -> None:
        for action in actions:
            with suppress(NotFound):
                self._about("delete_scheduled_action", name, of, ScheduledActionName=action)

    def _all(self, call: str, items: str, name: str, of: ScalableKind, **given: Any) -> list[dict[str, Any]]:
        given |= {"ServiceNamespace": _NAMESPACE, "ScalableDimension": dimension_of(of)}
        return list(self._api.pages(call, _what(name), token="NextToken", items=items, **given))

    def _about(self, call: str, name: str, of: ScalableKind, **given: Any) -> dict[str, Any]:
        return self._api(
            call,
            _what(name),
            ServiceNamespace=_NAMESPACE,
            ResourceId=resource_of(name, of),
            ScalableDimension=dimension_of(of),
            **given,
        )


def _what(name: str) -> str:
    return f"scaling of {name}"
