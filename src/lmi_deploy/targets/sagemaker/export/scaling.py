"""The autoscaling of an exported endpoint, in the terms of AWS's API: what `lmi up` would send."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lmi_deploy.domain.sagemaker.resource_settings import VARIANT
from lmi_deploy.domain.sagemaker.scaling_requests import (
    dimension_of,
    scheduled_requests,
    tracking_requests,
)
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.domain.sagemaker.step_scaling import (
    STEP_POLICY,
    step_alarm_name,
    step_alarm_request,
    step_policy_request,
)
from lmi_deploy.targets.sagemaker.export.parameters import Parameter, Text

Members = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingFields:
    """Members of RegisterScalableTarget, PutScalingPolicy, PutScheduledAction and PutMetricAlarm, without the object
    that all name.
    """

    target: Members
    policies: tuple[Members, ...]
    alarms: tuple[tuple[str, Members], ...]
    """Each with the name of the policy that it calls, which is not among its members."""
    scheduled: tuple[Members, ...]
    service: str = "sagemaker"
    dimension: str = dimension_of("variant")
    variant: str = VARIANT


def scaling_fields(scaling: Scaling, endpoint: Parameter, bind: Callable[[Any], Any]) -> ScalingFields:
    """`bind` replaces what differs between accounts, also the endpoint in the dimensions of a metric."""
    name = str(endpoint.default)
    # Also their defaults: Terraform's provider sends 0 for what its configuration leaves out.
    pace = {
        "ScaleInCooldown": scaling.scale_in_cooldown,
        "ScaleOutCooldown": scaling.scale_out_cooldown,
    }
    tracking = (
        {
            "PolicyName": policy,
            "PolicyType": "TargetTrackingScaling",
            "TargetTrackingScalingPolicyConfiguration": bind({**request, **pace}),
        }
        for policy, request in tracking_requests(name, scaling, "variant").items()
    )
    steps = (
        {
            "PolicyName": f"{STEP_POLICY}{step.name}",
            "PolicyType": "StepScaling",
            "StepScalingPolicyConfiguration": step_policy_request(step),
        }
        for step in scaling.steps
    )
    return ScalingFields(
        target={"MinCapacity": scaling.least, "MaxCapacity": scaling.most},
        policies=(*tracking, *steps),
        alarms=tuple(_alarms(scaling, name, endpoint, bind)),
        scheduled=tuple(
            {"ScheduledActionName": action, **request}
            for action, request in scheduled_requests(scaling).items()
        ),
    )


def _alarms(
    scaling: Scaling, name: str, endpoint: Parameter, bind: Callable[[Any], Any]
) -> list[tuple[str, Members]]:
    found: list[tuple[str, Members]] = []
    for step in scaling.steps:
        policy = f"{STEP_POLICY}{step.name}"
        request = step_alarm_request(name, step, policy)
        own = {"AlarmName": Text((endpoint, step_alarm_name("", step.name)))}
        text = {"AlarmDescription": f"Calls the scaling policy {policy}"}
        without = {*own, *text, "AlarmActions", *(() if step.dimensions else ("Dimensions",))}
        rest = {key: value for key, value in request.items() if key not in without}
        found.append((policy, {**own, **text, **bind(rest)}))
    return found
