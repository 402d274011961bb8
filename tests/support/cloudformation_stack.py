"""Applies a CloudFormation template to the emulator, which has no CloudFormation: each resource is one call of boto3.

Only the types of `lmi export`. A property becomes the member of its name, a parameter and an attribute its value; a
resource without a name gets one, as CloudFormation names it. Resources are created in the template's order and deleted
in reverse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

Client = Callable[[str], Any]
_NAMES = {
    "AWS::SageMaker::Model": "ModelName",
    "AWS::SageMaker::EndpointConfig": "EndpointConfigName",
    "AWS::SageMaker::Endpoint": "EndpointName",
}
_CALLS = {
    "AWS::SageMaker::Model": ("create_model", "delete_model"),
    "AWS::SageMaker::EndpointConfig": ("create_endpoint_config", "delete_endpoint_config"),
    "AWS::SageMaker::Endpoint": ("create_endpoint", "delete_endpoint"),
}
_TARGET = ("ServiceNamespace", "ResourceId", "ScalableDimension")
_OF_UPDATES = ("RetainAllVariantProperties", "ExcludeRetainedVariantProperties", "RetainDeploymentConfig")
"""Of an endpoint: members of UpdateEndpoint alone."""


@dataclass(frozen=True)
class Call:
    """A short function of CloudFormation, as the template has it."""

    name: str
    argument: str


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short functions."""


def _function(loader: _Loader, suffix: str, node: yaml.Node) -> Call:
    assert isinstance(node, yaml.ScalarNode)
    return Call(suffix, str(loader.construct_scalar(node)))


_Loader.add_multi_constructor("!", _function)


def read_template(text: str) -> dict[str, Any]:
    found = yaml.load(text, _Loader)
    assert isinstance(found, dict)
    return found


@dataclass
class CloudFormationStack:
    name: str
    client: Client
    settle: Callable[[], object]
    """Waits until the endpoint is in service, as CloudFormation does before it goes on."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    existing: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """The type and the properties of each resource, by its logical id."""
    references: dict[str, str] = field(default_factory=dict)
    """What `Ref` gives for a resource, where it is not its logical id."""
    updates: int = 0

    def create(self, text: str) -> None:
        template = read_template(text)
        values = self._values(template)
        for logical, resource in template["Resources"].items():
            self._create(logical, resource["Type"], resource["Properties"], values)

    def update(self, text: str) -> None:
        """Model and config are replaced, the endpoint is updated, what was replaced is deleted last."""
        template = read_template(text)
        values, before = self._values(template), dict(self.existing)
        self.updates += 1
        for logical, resource in template["Resources"].items():
            if resource["Type"] != "AWS::SageMaker::Endpoint":
                if "SageMaker" in resource["Type"]:
                    self._create(logical, resource["Type"], resource["Properties"], values)
                continue
            properties = self._resolve(resource["Properties"], values)
            sent = {key: value for key, value in properties.items() if key != "Tags"}
            self.client("sagemaker").update_endpoint(**sent)
            self.settle()
            self.existing[logical] = (resource["Type"], properties)
        for logical in ("EndpointConfig", "Model"):
            self._delete(*before[logical])

    def delete(self) -> None:
        for kind, properties in reversed(self.existing.values()):
            self._delete(kind, properties)
        self.existing.clear()

    def _values(self, template: Mapping[str, Any]) -> dict[str, Any]:
        declared = template["Parameters"]
        assert self.parameters.keys() <= declared.keys()
        return {
            name: self.parameters[name] if name in self.parameters else each["Default"]
            for name, each in declared.items()
        }

    def _create(self, logical: str, kind: str, given: Any, values: Mapping[str, Any]) -> None:
        properties = self._resolve(given, values)
        if kind in _NAMES:
            properties.setdefault(_NAMES[kind], f"{self.name}-{logical}-{self.updates}")
            sent = {key: value for key, value in properties.items() if key not in _OF_UPDATES}
            getattr(self.client("sagemaker"), _CALLS[kind][0])(**sent)
            if kind == "AWS::SageMaker::Endpoint":
                self.settle()
        elif kind == "AWS::ApplicationAutoScaling::ScalableTarget":
            self._register(properties)
        elif kind == "AWS::CloudWatch::Alarm":
            self.client("cloudwatch").put_metric_alarm(**properties)
        else:
            assert kind == "AWS::ApplicationAutoScaling::ScalingPolicy", kind
            target = self.existing[properties.pop("ScalingTargetId")][1]
            properties |= {key: target[key] for key in _TARGET}
            put = self.client("application-autoscaling").put_scaling_policy(**properties)
            self.references[logical] = put["PolicyARN"]
        self.existing[logical] = (kind, properties)

    def _register(self, properties: dict[str, Any]) -> None:
        scaling = self.client("application-autoscaling")
        target = {key: value for key, value in properties.items() if key != "ScheduledActions"}
        scaling.register_scalable_target(**target)
        for action in properties.get("ScheduledActions", ()):
            scaling.put_scheduled_action(**action, **{key: target[key] for key in _TARGET})

    def _delete(self, kind: str, properties: Mapping[str, Any]) -> None:
        if kind in _NAMES:
            name = _NAMES[kind]
            getattr(self.client("sagemaker"), _CALLS[kind][1])(**{name: properties[name]})
            return
        if kind == "AWS::CloudWatch::Alarm":
            self.client("cloudwatch").delete_alarms(AlarmNames=[properties["AlarmName"]])
            return
        scaling = self.client("application-autoscaling")
        about = {key: properties[key] for key in _TARGET}
        if kind.endswith("ScalableTarget"):
            scaling.deregister_scalable_target(**about)
        else:
            scaling.delete_scaling_policy(PolicyName=properties["PolicyName"], **about)

    def _resolve(self, value: Any, values: Mapping[str, Any]) -> Any:
        if isinstance(value, dict):
            return {key: self._resolve(item, values) for key, item in value.items()}
        if isinstance(value, list):
            return [self._resolve(item, values) for item in value]
        if not isinstance(value, Call):
            return value
        match value.name:
            case "Ref":
                return values.get(value.argument) or self.references.get(value.argument, value.argument)
            case "GetAtt":
                return self._attribute(value.argument)
            case "Sub":
                text = re.sub(
                    r"\$\{([^!}][^}]*)\}",
                    lambda found: str(values.get(found[1]) or self._attribute(found[1])),
                    value.argument,
                )
                return text.replace("${!", "${")
            case _:
                raise AssertionError(value)

    def _attribute(self, named: str) -> str:
        logical, _, attribute = named.partition(".")
        return str(self.existing[logical][1][attribute])
