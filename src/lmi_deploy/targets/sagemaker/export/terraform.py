"""A stack as a Terraform configuration, for the provider hashicorp/aws.

Sources: the provider's schema (`terraform providers schema -json`, 5.100.0) for aws_sagemaker_model,
aws_sagemaker_endpoint_configuration, aws_sagemaker_endpoint, aws_appautoscaling_target, _policy and _scheduled_action,
aws_cloudwatch_metric_alarm;
`additional_model_data_source`: the provider's CHANGELOG, 6.22.0. Its arguments are the API's members in snake case,
with the exceptions below. Model and endpoint configuration cannot be changed: their names contain the digest of their
settings, and the new one is created before the old one is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.targets.sagemaker.export.hcl_text import Body, Expression, hcl_lines, quoted
from lmi_deploy.targets.sagemaker.export.parameters import Parameter, Text
from lmi_deploy.targets.sagemaker.export.scaling import ScalingFields
from lmi_deploy.targets.sagemaker.export.stack import Stack

_RENAMED: Final = {
    "AdditionalModelDataSources": "additional_model_data_source",
    "StepAdjustments": "step_adjustment",
}
_MAPS: Final = frozenset({"Environment"})
"""Members that are maps of the user's own names, and no blocks."""
_TESTED, _WITH_MOUNTS = ">= 5.100.0", ">= 6.22.0"
_MODEL, _CONFIG = "aws_sagemaker_model.model", "aws_sagemaker_endpoint_configuration.config"
_ENDPOINT, _TARGET = "aws_sagemaker_endpoint.endpoint", "aws_appautoscaling_target.target"


def terraform(stack: Stack) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """A module in one file, the types of its resources, the names of its variables."""
    body, resources = Body(), _resources(stack)
    body.blocks = [
        ("terraform", _requirements(stack)),
        *((f'variable "{_name(each)}"', _variable(each)) for each in stack.parameters),
        ("locals", _locals(stack)),
        *(
            (f'resource "{address.partition(".")[0]}" "{address.partition(".")[2]}"', content)
            for address, content in resources.items()
        ),
        ('output "endpoint_name"', Body({"value": Expression(f"{_ENDPOINT}.name")})),
        ('output "endpoint_arn"', Body({"value": Expression(f"{_ENDPOINT}.arn")})),
    ]
    comments = [f"# {line}".rstrip() for line in stack.header]
    if stack.scaling is not None:
        # The provider has no RetainAllVariantProperties.
        comments.append(
            "# - keep the number of instances in an update, which starts with the initial one again"
        )
        if stack.scaling.scheduled:
            comments.append(
                "# - leave the bounds of a scheduled action: an apply sets the target's own until the next action"
            )
    text = "".join(f"{line}\n" for line in (*comments, "", *hcl_lines(body)))
    types = tuple(address.partition(".")[0] for address in resources)
    return text, types, tuple(_name(each) for each in stack.parameters)


def _requirements(stack: Stack) -> Body:
    mounted = "AdditionalModelDataSources" in stack.model["PrimaryContainer"]
    version = _WITH_MOUNTS if mounted else _TESTED
    source = Expression(f'{{ source = "hashicorp/aws", version = "{version}" }}')
    return Body({"required_version": ">= 1.5"}, [("required_providers", Body({"aws": source}))])


def _variable(parameter: Parameter) -> Body:
    arguments: dict[str, Any] = {
        "description": parameter.description,
        "type": Expression("string"),
    }
    if parameter.default is not None:
        arguments["default"] = parameter.default
    if parameter.secret:
        arguments["sensitive"] = True
    return Body(arguments)


def _locals(stack: Stack) -> Body:
    """The names of what cannot be changed: another setting, or another value of a variable, is another name."""
    changing = ", ".join(f"var.{_name(each)}" for each in stack.parameters[1:])
    hashed = f'sha256(jsonencode(["{stack.digest}", {changing}]))'
    if any(each.secret for each in stack.parameters):
        hashed = f"nonsensitive({hashed})"
    return Body({"versioned_name": Expression(f'"{stack.deployment}-${{substr({hashed}, 0, 10)}}"')})


def _resources(stack: Stack) -> dict[str, Body]:
    tags = dict(stack.tags)
    name = Expression("local.versioned_name")
    model, config = _body(stack.model), _body(_endpoint_config(stack))
    model.arguments = {"name": name, **model.arguments, "tags": tags}
    config.arguments = {"name": name, **config.arguments, "tags": tags}
    for replaced in (model, config):
        replaced.blocks.append(("lifecycle", Body({"create_before_destroy": True})))
    endpoint = _body({"DeploymentConfig": stack.update} if stack.update else {})
    endpoint.arguments = {
        "name": _value(stack.endpoint_name),
        "endpoint_config_name": Expression(f"{_CONFIG}.name"),
        "tags": tags,
    }
    resources = {_MODEL: model, _CONFIG: config, _ENDPOINT: endpoint}
    return resources | (_scaling(stack.scaling) if stack.scaling else {})


def _endpoint_config(stack: Stack) -> dict[str, Any]:
    """The variant names the model, and the provider takes the key of the volume as an ARN alone."""
    config = dict(stack.config)
    [variant] = config["ProductionVariants"]
    named = {"VariantName": variant["VariantName"], "ModelName": Expression(f"{_MODEL}.name")}
    config["ProductionVariants"] = [{**named, **variant}]
    if key := config.pop("KmsKeyId", None):
        config = {"KmsKeyArn": _key_arn(key, stack.spec.cloud), **config}
    return config


def _key_arn(key: str, place: SageMakerPlace) -> str:
    if key.startswith("arn:"):
        return key
    kind = key if key.startswith("alias/") else f"key/{key}"
    return f"arn:{place.partition}:kms:{place.region}:{place.account}:{kind}"


def _scaling(scaling: ScalingFields) -> dict[str, Body]:
    target = _body(scaling.target)
    target.arguments = {
        "service_namespace": scaling.service,
        "resource_id": Expression(f'"endpoint/${{{_ENDPOINT}.name}}/variant/{scaling.variant}"'),
        "scalable_dimension": scaling.dimension,
        **target.arguments,
    }
    resources, named = {_TARGET: target}, dict[str, str]()
    for number, policy in enumerate(scaling.policies, 1):
        address = named[policy["PolicyName"]] = _numbered("aws_appautoscaling_policy.policy", number)
        resources[address] = _of_target(policy, "policy_name")
    for number, (policy_name, alarm) in enumerate(scaling.alarms, 1):
        address = _numbered("aws_cloudwatch_metric_alarm.scaling", number)
        resources[address] = _alarm(alarm, Expression(f"{named[policy_name]}.arn"))
    for number, action in enumerate(scaling.scheduled, 1):
        address = _numbered("aws_appautoscaling_scheduled_action.action", number)
        resources[address] = _of_target(action, "scheduled_action_name")
    return resources


def _numbered(address: str, number: int) -> str:
    return address if number == 1 else f"{address}{number}"


def _of_target(members: Mapping[str, Any], name: str) -> Body:
    body = _body(members)
    body.arguments["name"] = body.arguments.pop(name)
    for argument in ("service_namespace", "resource_id", "scalable_dimension"):
        body.arguments[argument] = Expression(f"{_TARGET}.{argument}")
    return body


def _alarm(members: Mapping[str, Any], policy: Expression) -> Body:
    """The provider takes its dimensions as a map, and those of a policy as blocks."""
    dimensions = {each["Name"]: _value(each["Value"]) for each in members.get("Dimensions", ())}
    body = _body({key: value for key, value in members.items() if key != "Dimensions"})
    body.arguments["alarm_actions"] = [policy]
    if dimensions:
        body.arguments["dimensions"] = dimensions
    return body


def _body(members: Mapping[str, Any]) -> Body:
    """Members of the API as arguments and blocks."""
    body = Body()
    for member, value in members.items():
        name = _RENAMED.get(member) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", member).lower()
        if member in _MAPS:
            if value:
                body.arguments[name] = {key: _value(item) for key, item in value.items()}
        elif isinstance(value, Mapping):
            body.blocks.append((name, _body(value)))
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            body.blocks.extend((name, _body(item)) for item in value)
        else:
            body.arguments[name] = _value(value)
    return body


def _value(value: Any) -> Any:
    match value:
        case Parameter():
            return Expression(f"var.{_name(value)}")
        case Text(parts=parts):
            inside = (
                f"${{var.{_name(part)}}}" if isinstance(part, Parameter) else quoted(part) for part in parts
            )
            return Expression(f'"{"".join(inside)}"')
        case _:
            return value


def _name(parameter: Parameter) -> str:
    return "_".join(parameter.words)
