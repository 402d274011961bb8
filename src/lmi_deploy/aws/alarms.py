"""The port AlarmsApi: the settings of an endpoint's alarms as requests to CloudWatch, and back.

Sources: CloudWatch's API reference, PutMetricAlarm (it replaces an alarm, and takes tags only when it creates one);
SageMaker developer guide, "Amazon SageMaker AI metrics in Amazon CloudWatch" (Invocation5XXErrors: "for each 5xx
response, 1 is sent; otherwise, 0", so that its average is their share; ModelLatency in microseconds; MemoryUtilization
in percent) and "Alarms and logs for tracking metrics from asynchronous endpoints" (the first two exist there, too).
Read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection
from lmi_deploy.aws.metric_alarms import MetricAlarms
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.alarm_settings import (
    KINDS,
    OTHER_METRIC,
    AlarmKind,
    AlarmRule,
    EndpointAlarms,
    ObservedAlarms,
    alarm_description,
    alarm_name,
    alarm_names,
)
from lmi_deploy.domain.sagemaker.resource_fields import tag_list
from lmi_deploy.domain.sagemaker.resource_settings import VARIANT
from lmi_deploy.errors import Refused

_METRICS: Final[Mapping[AlarmKind, tuple[str, str, float]]] = {
    "errors-5xx": ("AWS/SageMaker", "Invocation5XXErrors", 0.01),
    "latency": ("AWS/SageMaker", "ModelLatency", 1000.0),
    "memory": ("/aws/sagemaker/Endpoints", "MemoryUtilization", 1.0),
}
"""Namespace, metric, and CloudWatch's unit of an alarm that lmi sets."""
_SIMPLE: Final = frozenset({"Average", "Maximum"})


class CloudWatchAlarms:
    def __init__(self, access: AwsConnection) -> None:
        self._alarms = MetricAlarms(access)

    def read(self, endpoint: str) -> ObservedAlarms | None:
        return _observed(endpoint, self._ours(endpoint))

    def write(self, endpoint: str, alarms: EndpointAlarms, tags: Pairs) -> None:
        found = {each["AlarmName"]: each for each in self._found(endpoint)}
        ours = _ours(endpoint, list(found.values()))
        if foreign := sorted(found.keys() - {each["AlarmName"] for each in ours.values()}):
            raise Refused(
                f"alarm {foreign[0]}: it exists, and lmi did not make it",
                hint="it was not changed. Delete it in CloudWatch, or choose another name in the recipe",
            )
        for rule in alarms.rules:
            request = alarm_request(endpoint, rule, alarms)
            created = {} if rule.kind in ours else {"Tags": tag_list(tags)}
            self._alarms.put({**request, **created})
        desired = {rule.kind for rule in alarms.rules}
        self._alarms.delete([ours[kind]["AlarmName"] for kind in ours if kind not in desired], endpoint)

    def remove(self, endpoint: str) -> None:
        self._alarms.delete([each["AlarmName"] for each in self._ours(endpoint).values()], endpoint)

    def _ours(self, endpoint: str) -> dict[AlarmKind, dict[str, Any]]:
        return _ours(endpoint, self._found(endpoint))

    def _found(self, endpoint: str) -> list[dict[str, Any]]:
        return self._alarms.named(alarm_names(endpoint), endpoint)


def _ours(endpoint: str, found: list[dict[str, Any]]) -> dict[AlarmKind, dict[str, Any]]:
    named = {each["AlarmName"]: each for each in found}
    return {
        kind: alarm
        for kind in KINDS
        if (alarm := named.get(alarm_name(endpoint, kind)))
        and alarm.get("AlarmDescription") == alarm_description(endpoint, kind)
    }


def alarm_request(endpoint: str, rule: AlarmRule, alarms: EndpointAlarms) -> dict[str, Any]:
    """PutMetricAlarm's members but the tags. No request and no instance is no reason to wake anybody up."""
    namespace, metric, unit = _METRICS[rule.kind]
    simple = rule.statistic in _SIMPLE
    return {
        "AlarmName": alarm_name(endpoint, rule.kind),
        "AlarmDescription": alarm_description(endpoint, rule.kind),
        "ActionsEnabled": True,
        "AlarmActions": [alarms.topic],
        "OKActions": [alarms.topic] if alarms.notify_ok else [],
        "Namespace": namespace,
        "MetricName": metric,
        "Statistic" if simple else "ExtendedStatistic": rule.statistic,
        "Dimensions": [
            {"Name": "EndpointName", "Value": endpoint},
            {"Name": "VariantName", "Value": VARIANT},
        ],
        "Period": rule.period,
        "EvaluationPeriods": rule.evaluation_periods,
        "DatapointsToAlarm": rule.datapoints_to_alarm,
        "Threshold": round(rule.threshold * unit, 9),
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "TreatMissingData": "notBreaching",
    }


def _observed(endpoint: str, ours: Mapping[AlarmKind, Mapping[str, Any]]) -> ObservedAlarms | None:
    if not ours:
        return None
    topics = sorted({topic for alarm in ours.values() for topic in alarm.get("AlarmActions", ())})
    rules = tuple(_rule(endpoint, kind, alarm) for kind, alarm in ours.items())
    states = tuple(
        (kind, alarm["StateValue"] if alarm.get("ActionsEnabled", True) else "disabled")
        for kind, alarm in ours.items()
    )
    notify_ok = all(alarm.get("OKActions") == alarm.get("AlarmActions") for alarm in ours.values())
    return ObservedAlarms(
        settings=EndpointAlarms(topic=", ".join(topics), notify_ok=notify_ok, rules=rules), states=states
    )


def _rule(endpoint: str, kind: AlarmKind, alarm: Mapping[str, Any]) -> AlarmRule:
    _, _, unit = _METRICS[kind]
    rule = AlarmRule(
        kind=kind,
        threshold=round(float(alarm.get("Threshold", 0.0)) / unit, 9),
        statistic=str(alarm.get("Statistic") or alarm.get("ExtendedStatistic") or ""),
        period=int(alarm.get("Period", 0)),
        evaluation_periods=int(alarm.get("EvaluationPeriods", 0)),
        datapoints_to_alarm=int(alarm.get("DatapointsToAlarm") or alarm.get("EvaluationPeriods", 0)),
    )
    expected = alarm_request(endpoint, rule, EndpointAlarms(topic="", notify_ok=False, rules=()))
    fixed = ("Namespace", "MetricName", "ComparisonOperator", "TreatMissingData")
    same = all(alarm.get(key) == expected[key] for key in fixed) and _named(alarm) == _named(expected)
    return rule if same else replace(rule, statistic=OTHER_METRIC)


def _named(alarm: Mapping[str, Any]) -> list[tuple[str, str]]:
    return sorted((each["Name"], each["Value"]) for each in alarm.get("Dimensions", ()))
