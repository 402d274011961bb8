"""The recipe's group `endpoint.alarms`: what CloudWatch watches of an endpoint, and which SNS topic it notifies."""

# Without `from __future__ import annotations`: see recipe_keys.py.
from dataclasses import dataclass, field
from typing import Annotated, Final

from lmi_deploy.domain.recipe_key_types import Doc, Integer, MatchingRule, Number, Seconds

LONGEST_PERIOD: Final = 86_400
LONGEST_EVALUATION: Final = 604_800
"""Seconds of all periods together; a period below an hour shortens it to a day (CloudWatch API reference,
PutMetricAlarm, Period).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmTiming:
    """How long a metric must be beyond its threshold: the same keys for each alarm."""

    enabled: Annotated[bool, Doc("Whether there is such an alarm.", "false")] = True
    period: Annotated[
        int, Seconds(60, LONGEST_PERIOD), Doc("Time over which the metric is measured: whole minutes.", "5m")
    ] = 60
    evaluation_periods: Annotated[
        int, Integer(1, 1440), Doc("How many of the last periods are looked at.", "10")
    ] = 5
    datapoints_to_alarm: Annotated[
        int, Integer(1, 1440), Doc("In how many of them the threshold must be reached.", "5")
    ] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorsAlarm(AlarmTiming):
    threshold_percent: Annotated[
        float,
        Number(0.001, 100),
        Doc("The share of the requests with a response of 500 to 599, from which on it goes off.", "1"),
    ] = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyAlarm(AlarmTiming):
    threshold_ms: Annotated[
        int | None,
        Integer(1, 3_600_000),
        Doc(
            "The time in the container (ModelLatency) from which on it goes off; by default 30000, half of what "
            "SageMaker allows, and 1800000 with `asynchronous`.",
            "8000",
        ),
    ] = None
    percentile: Annotated[
        float, Number(50, 100), Doc("Of which request, sorted by latency; 100: the slowest.", "95")
    ] = 99.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAlarm(AlarmTiming):
    threshold_percent: Annotated[
        float,
        Number(1, 100),
        Doc(
            "The part of the instance's memory (not of its GPUs, which engines fill on purpose) from which on it goes "
            "off, on any instance.",
            "85",
        ),
    ] = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    topic: Annotated[
        str,
        MatchingRule("sns_topic", "ARN of an SNS topic"),
        Doc(
            "SNS topic of your own that each alarm notifies, in the endpoint's region.",
            "arn:aws:sns:us-east-1:123456789012:on-call",
        ),
    ]
    notify_ok: Annotated[bool, Doc("Notify also when an alarm is over.", "false")] = True
    errors_5xx: Annotated[ErrorsAlarm, Doc("Requests that the container answers with an error.")] = field(
        default_factory=ErrorsAlarm
    )
    latency: Annotated[LatencyAlarm, Doc("Time in the container.")] = field(default_factory=LatencyAlarm)
    memory: Annotated[MemoryAlarm, Doc("Use of the instance's memory.")] = field(default_factory=MemoryAlarm)
