"""The recipe's group `endpoint.autoscaling`: how the number of instances follows the load, or the time of day."""

# Without `from __future__ import annotations`: see recipe_keys.py.
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from lmi_deploy.domain.recipe_key_types import (
    Doc,
    GroupsByName,
    Integer,
    Number,
    OneLine,
    PairsOf,
    Seconds,
)
from lmi_deploy.domain.settings_digest import digest_tag

StepDirection = Literal["above", "below"]
StepUnit = Literal["instances", "percent", "exact"]
Statistic = Literal["Average", "Minimum", "Maximum", "SampleCount", "Sum"]
COOLDOWN: Final = 300
"""Application Auto Scaling's own, for the variants of an endpoint."""
WAKE_UP: Final = "from-zero"
"""The name of the step scaling that lmi adds where there may be no instance."""
MOST_STEPS: Final = 20
"""Adjustments of a step scaling policy: Application Auto Scaling user guide, "Quotas"."""
MOST_STEP_POLICIES: Final = 40
"""Of the 50 policies of a scalable target."""
MOST_SCHEDULED: Final = 200
"""Scheduled actions of a scalable target: Application Auto Scaling user guide, "Quotas"."""


@digest_tag("TrackedMetric")
@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedMetric:
    namespace: Annotated[str, OneLine("CloudWatch namespace"), Doc("Namespace of the metric.", "Chat")]
    name: Annotated[str, OneLine("metric name"), Doc("Name of the metric.", "QueueLength")]
    target: Annotated[
        float,
        Number(0.000001, 1_000_000_000_000),
        Doc("The value to keep it at. It must fall as instances are added.", "10"),
    ]
    statistic: Annotated[Statistic, Doc("How the values of a minute become one.", "Maximum")] = "Average"
    dimensions: Annotated[
        tuple[tuple[str, str], ...],
        PairsOf("dimension"),
        Doc(
            "Its dimensions; by default those of the endpoint's variant for SageMaker's own namespaces, else none.",
            "{Service: chat}",
        ),
    ] = ()

    @property
    def words(self) -> str:
        dimensions = ", ".join(f"{key} {value}" for key, value in self.dimensions)
        of = f" of {dimensions}" if dimensions else ""
        return f"{self.statistic} of {self.namespace} {self.name}{of} at {self.target:g}"


@digest_tag("StepScaling")
@dataclass(frozen=True, slots=True, kw_only=True)
class StepScaling:
    name: str
    namespace: Annotated[str, OneLine("CloudWatch namespace"), Doc("Namespace of the metric.", "Chat")]
    metric: Annotated[str, OneLine("metric name"), Doc("Name of the metric.", "QueueLength")]
    threshold: Annotated[
        float,
        Number(0, 1_000_000_000_000),
        Doc("The value from which on it acts, that value included.", "20"),
    ]
    adjustments: Annotated[
        tuple[tuple[str, str], ...],
        PairsOf("step"),
        Doc(
            "How many instances more (`+`) or fewer (`-`), by how far the value is beyond the threshold; the first "
            "distance is 0.",
            '{0: "+1", 50: "+3"}',
        ),
    ]
    when: Annotated[StepDirection, Doc("On which side of the threshold it acts.", "below")] = "above"
    unit: Annotated[
        StepUnit, Doc("What the adjustments are: instances, percent of them, or their number.", "percent")
    ] = "instances"
    statistic: Annotated[Statistic, Doc("How the values of a minute become one.", "Maximum")] = "Average"
    dimensions: Annotated[
        tuple[tuple[str, str], ...],
        PairsOf("dimension"),
        Doc("Its dimensions; by default as those of `metric`.", "{Service: chat}"),
    ] = ()
    minutes: Annotated[int, Integer(1, 60), Doc("For how many minutes the value must be there.", "3")] = 2
    cooldown: Annotated[int, Seconds(0, 86_400), Doc("Wait after it acted.", "10m")] = COOLDOWN

    def words_in(self, things: str) -> str:
        """`things` are counted: instances, or copies."""
        dimensions = ", ".join(f"{key} {value}" for key, value in self.dimensions)
        of = f" of {dimensions}" if dimensions else ""
        steps = ", ".join(f"{change} from {distance}" for distance, change in self.adjustments)
        unit = things if self.unit == "instances" else self.unit
        bound = "at least" if self.when == "above" else "at most"
        return (
            f"{self.statistic} of {self.namespace} {self.metric}{of} {bound} {self.threshold:g} for {self.minutes} "
            f"min: {steps} {unit}, then {self.cooldown} s pause"
        )


@digest_tag("ScheduledBounds")
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledBounds:
    name: str
    schedule: Annotated[
        str,
        OneLine("`cron(...)`, `rate(...)` or `at(...)`"),
        Doc("When it acts.", "cron(0 20 ? * MON-FRI *)"),
    ]
    timezone: Annotated[str, OneLine("time zone"), Doc("Time zone of the schedule.", "Europe/Berlin")] = "UTC"
    min: Annotated[int | None, Integer(0, 10_000), Doc("Fewest instances from then on.", "1")] = None
    max: Annotated[int | None, Integer(0, 10_000), Doc("Most instances from then on.", "2")] = None

    @property
    def words(self) -> str:
        bounds = ((f"min {self.min}", self.min), (f"max {self.max}", self.max))
        zone = "" if self.schedule.startswith("rate(") else f" {self.timezone}"
        return f"{self.schedule}{zone}: {', '.join(word for word, value in bounds if value is not None)}"


@digest_tag("InstanceScaling")
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceScaling:
    min: Annotated[int, Integer(0, 10_000), Doc("Fewest instances; 0: none, while no model has a copy.", "0")]
    max: Annotated[int, Integer(1, 10_000), Doc("Most instances.", "2")]

    @property
    def words(self) -> str:
        return f"{self.min} to {self.max}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaling:
    min: Annotated[
        int, Integer(0, 10_000), Doc("Fewest instances; with `share`, as everywhere here, copies.", "1")
    ]
    max: Annotated[int, Integer(1, 10_000), Doc("Most instances.", "4")]
    invocations_per_instance: Annotated[
        int | None,
        Integer(1, 1_000_000),
        Doc(
            "Target number of requests per minute and instance (with `share`, copy); `lmi bench` measures the capacity "
            "of one instance.",
            "120",
        ),
    ] = None
    concurrent_requests_per_model: Annotated[
        float | None,
        Number(0.1, 100_000),
        Doc(
            "Target number of requests in progress per model, which SageMaker measures every 10 seconds: faster than "
            "`invocations_per_instance`, and right for long and streamed answers.",
            "8",
        ),
    ] = None
    metric: Annotated[
        TrackedMetric | None, Doc("A metric of your own, or of another service, to keep at a target.")
    ] = None
    backlog_per_instance: Annotated[
        float | None,
        Number(0.1, 1_000_000),
        Doc(
            "Of an asynchronous endpoint: target number of requests in its queue per instance; with it, `min` may be "
            "0.",
            "5",
        ),
    ] = None
    steps: Annotated[
        tuple[StepScaling, ...],
        GroupsByName(StepScaling, most=MOST_STEP_POLICIES),
        Doc(
            "Step scaling: changes in steps, by how far a metric is beyond a threshold; each by a name of your own.",
            "{queue: {namespace: Chat, metric: Queue, threshold: 20, adjustments: {0: '+1', 50: '+3'}}}",
        ),
    ] = ()
    scale_in: Annotated[bool, Doc("Whether instances are removed when the load falls.", "false")] = True
    scale_in_cooldown: Annotated[
        int, Seconds(0, 86_400), Doc("Wait between two removals of instances.", "10m")
    ] = COOLDOWN
    scale_out_cooldown: Annotated[
        int, Seconds(0, 86_400), Doc("Wait between two additions of instances.", "1m")
    ] = COOLDOWN
    scheduled: Annotated[
        tuple[ScheduledBounds, ...],
        GroupsByName(ScheduledBounds, most=MOST_SCHEDULED),
        Doc(
            "Other bounds from certain times on, each by a name of your own.",
            "{night: {schedule: 'cron(0 20 ? * * *)', min: 1, max: 1}}",
        ),
    ] = ()

    @property
    def least(self) -> int:
        """Instances that it may leave, at any time."""
        return min(self.min, *(each.min for each in self.scheduled if each.min is not None), self.min)

    @property
    def most(self) -> int:
        """Instances that it may start, at any time."""
        return max(self.max, *(max(each.min or 0, each.max or 0) for each in self.scheduled), 0)
