"""The CloudWatch alarms of an endpoint: what each watches, their names, and what was observed of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.settings_digest import digest_tag

AlarmKind = Literal["errors-5xx", "latency", "memory"]
KINDS: Final[tuple[AlarmKind, ...]] = get_args(AlarmKind)
OTHER_METRIC: Final = "another metric"
"""The statistic of an alarm that no longer watches what lmi set."""
_METRICS: Final[dict[AlarmKind, str]] = {
    "errors-5xx": "of the requests with 5xx",
    "latency": "ms in the container",
    "memory": "% of the memory",
}
_WITH_PERCENT: Final = "errors-5xx"


@digest_tag("AlarmRule")
@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """One alarm. `threshold`: in percent, or in milliseconds; it goes off from this value on."""

    kind: AlarmKind
    threshold: float
    statistic: str
    """CloudWatch's: Average, Maximum, or a percentile such as p99."""
    period: int
    """Seconds."""
    evaluation_periods: int
    datapoints_to_alarm: int

    @property
    def words(self) -> str:
        percent = " %" if self.kind == _WITH_PERCENT else ""
        return (
            f"{self.statistic} from {self.threshold:g}{percent} {_METRICS[self.kind]} on, in "
            f"{self.datapoints_to_alarm} of {self.evaluation_periods} x {self.period} s"
        )


@digest_tag("EndpointAlarms")
@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointAlarms:
    topic: str
    """ARN of the SNS topic."""
    notify_ok: bool
    rules: tuple[AlarmRule, ...]
    """In the order of KINDS."""

    @property
    def words(self) -> str:
        """What is watched, and who is notified."""
        also = "" if self.notify_ok else ", not when they are over"
        return f"{', '.join(each.kind for each in self.rules)} to {self.topic}{also}"

    @property
    def summary(self) -> dict[str, str]:
        """Field by field."""
        return {"alarms": self.words, **{f"alarms.{each.kind}": each.words for each in self.rules}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAlarms:
    settings: EndpointAlarms
    """As registered. Of alarms with several topics, `topic` names all of them."""
    states: Pairs = field(default=())
    """Of each kind CloudWatch's state: OK, ALARM or INSUFFICIENT_DATA; `disabled` if its actions are disabled."""

    @property
    def words(self) -> str:
        return ", ".join(f"{kind} {state}" for kind, state in self.states)


def alarm_name(endpoint: str, kind: AlarmKind) -> str:
    return f"{endpoint}-alarm-{kind}"


def alarm_names(endpoint: str) -> tuple[str, ...]:
    """All that it may have."""
    return tuple(alarm_name(endpoint, kind) for kind in KINDS)


def alarm_description(endpoint: str, kind: AlarmKind) -> str:
    """By it, with the name, an alarm is ours: one that exists takes no tags with another request."""
    return f"Made by lmi: {kind} of {endpoint}"
