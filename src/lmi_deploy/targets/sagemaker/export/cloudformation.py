"""A stack as a CloudFormation template in YAML.

Sources: AWS CloudFormation's resource schemas as of cfn-lint 1.58.0 (2026-11): AWS::SageMaker::Model, EndpointConfig
and Endpoint, AWS::ApplicationAutoScaling::ScalableTarget and ScalingPolicy, AWS::CloudWatch::Alarm. Their properties
have the names of the API's members. Model and EndpointConfig cannot be changed, only replaced: CloudFormation names
them itself, as it cannot replace a resource that has a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.sagemaker.resource_fields import tag_list
from lmi_deploy.errors import Refused
from lmi_deploy.targets.sagemaker.export.parameters import Parameter, Text
from lmi_deploy.targets.sagemaker.export.scaling import ScalingFields
from lmi_deploy.targets.sagemaker.export.stack import Stack
from lmi_deploy.targets.sagemaker.export.yaml_text import Function, yaml_lines

_RETAINED = ("DesiredWeight", "DataCaptureConfig")
"""What an update takes from the new configuration even if it keeps the number of instances."""


def cloudformation(stack: Stack) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The template, the types of its resources, the names of its parameters. Refused for what the types lack."""
    _require_no_mounts(stack)
    template = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"The endpoint of the lmi recipe {stack.deployment}",
        "Parameters": {_name(each): _parameter(each) for each in stack.parameters},
        "Resources": (resources := _resources(stack)),
        "Outputs": {
            "EndpointName": {"Value": Function("GetAtt", "Endpoint.EndpointName")},
            "EndpointArn": {"Value": Function("Ref", "Endpoint")},
        },
    }
    comments = (f"# {line}".rstrip() for line in stack.header)
    text = "".join(f"{line}\n" for line in (*comments, *yaml_lines(template)))
    types = tuple(str(resource["Type"]) for resource in resources.values())
    return text, types, tuple(_name(each) for each in stack.parameters)


def _require_no_mounts(stack: Stack) -> None:
    if "AdditionalModelDataSources" not in stack.model["PrimaryContainer"]:
        return
    spec: Spec = stack.spec
    what, hint = "weights.deliver: mount", "add --set weights.deliver=s3, or export with --format terraform"
    if spec.cloud.network_isolation:
        hint = "add --set weights.deliver=artifact (up to 5 GB), or export with --format terraform"
    if spec.cloud.delivery != "mount":
        what = "the draft model, which SageMaker mounts"
        hint = "remove the draft model from the recipe, or export with --format terraform"
    raise Refused(
        f"{what}: CloudFormation's AWS::SageMaker::Model has no AdditionalModelDataSources", hint=hint
    )


def _resources(stack: Stack) -> dict[str, Any]:
    tags = tag_list(stack.tags)
    config = dict(stack.config)
    [variant] = config["ProductionVariants"]
    config["ProductionVariants"] = [
        {"VariantName": variant["VariantName"], "ModelName": Function("GetAtt", "Model.ModelName"), **variant}
    ]
    endpoint: dict[str, Any] = {
        "EndpointName": stack.endpoint_name,
        "EndpointConfigName": Function("GetAtt", "EndpointConfig.EndpointConfigName"),
    }
    if stack.update is not None:
        endpoint["DeploymentConfig"] = stack.update
    if stack.scaling is not None:
        endpoint["RetainAllVariantProperties"] = True
        endpoint["ExcludeRetainedVariantProperties"] = [{"VariantPropertyType": kind} for kind in _RETAINED]
    resources = {
        "Model": _resource("AWS::SageMaker::Model", {**stack.model, "Tags": tags}),
        "EndpointConfig": _resource("AWS::SageMaker::EndpointConfig", {**config, "Tags": tags}),
        "Endpoint": _resource("AWS::SageMaker::Endpoint", {**endpoint, "Tags": tags}),
    }
    return resources | (_scaling(stack.scaling) if stack.scaling else {})


def _scaling(scaling: ScalingFields) -> dict[str, Any]:
    target = {
        "ServiceNamespace": scaling.service,
        "ResourceId": Function("Sub", f"endpoint/${{Endpoint.EndpointName}}/variant/{scaling.variant}"),
        "ScalableDimension": scaling.dimension,
        **scaling.target,
        **({"ScheduledActions": list(scaling.scheduled)} if scaling.scheduled else {}),
    }
    resources = {"ScalableTarget": _resource("AWS::ApplicationAutoScaling::ScalableTarget", target)}
    named: dict[str, str] = {}
    for number, policy in enumerate(scaling.policies, 1):
        properties = {**policy, "ScalingTargetId": Function("Ref", "ScalableTarget")}
        name = named[policy["PolicyName"]] = _numbered("ScalingPolicy", number)
        resources[name] = _resource("AWS::ApplicationAutoScaling::ScalingPolicy", properties)
    for number, (policy_name, alarm) in enumerate(scaling.alarms, 1):
        properties = {**alarm, "AlarmActions": [Function("Ref", named[policy_name])]}
        resources[_numbered("ScalingAlarm", number)] = _resource("AWS::CloudWatch::Alarm", properties)
    return resources


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}{number}"


def _resource(kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"Type": kind, "Properties": _with_functions(properties)}


def _with_functions(value: Any) -> Any:
    match value:
        case Parameter():
            return Function("Ref", _name(value))
        case Text(parts=parts):
            return Function(
                "Sub",
                "".join(
                    f"${{{_name(part)}}}" if isinstance(part, Parameter) else part.replace("${", "${!")
                    for part in parts
                ),
            )
        case Mapping():
            return {key: _with_functions(item) for key, item in value.items()}
        case list():
            return [_with_functions(item) for item in value]
        case _:
            return value


def _parameter(parameter: Parameter) -> dict[str, Any]:
    hidden = {"NoEcho": True} if parameter.secret else {}
    default = {} if parameter.default is None else {"Default": parameter.default}
    return {"Type": "String", **hidden, "Description": parameter.description, **default}


def _name(parameter: Parameter) -> str:
    """Letters and digits alone: all that CloudFormation allows."""
    return "".join(word.capitalize() for word in parameter.words)
