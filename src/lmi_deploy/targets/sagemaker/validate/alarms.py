"""The alarms of an endpoint: what CloudWatch refuses, and a topic that it cannot reach.

Sources: CloudWatch's API reference, PutMetricAlarm (Period, EvaluationPeriods, DatapointsToAlarm); SNS developer guide,
"Cross-Region delivery" names SQS and Lambda alone: an alarm and its topic are in one region.
"""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.recipe_alarm_keys import LONGEST_EVALUATION, LONGEST_PERIOD, Alarms, AlarmTiming
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.recipe.checks.issue import Issue, Rule

_AT = "endpoint.alarms"
_HOUR = 3600


def _topic(recipe: Recipe) -> Iterator[Issue]:
    alarms, region = recipe.endpoint.alarms, recipe.endpoint.region
    if alarms is None:
        return
    path, (_, _, _, place, account, name) = f"{_AT}.topic", alarms.topic.split(":", 5)
    standard = name.removesuffix(".fifo")
    if region and place != region:
        what = f"the topic is in {place}, and the endpoint in {region}: CloudWatch notifies topics of its own region"
        hint = f"name a topic in {region}: aws sns create-topic --name {standard} --region {region}"
        yield Issue(path=path, what=what, hint=hint, depends_on=("endpoint.region",))
    elif name != standard:
        what = f"{name}: a FIFO topic has no e-mail and no other subscriptions than queues"
        yield Issue(path=path, what=what, hint=f"name a standard topic of account {account}")


def _periods(recipe: Recipe) -> Iterator[Issue]:
    if recipe.endpoint.alarms is None:
        return
    groups = _groups(recipe.endpoint.alarms)
    if not any(group.enabled for group in groups.values()):
        what = "every alarm has enabled: false, so that nothing is watched"
        yield Issue(path=_AT, what=what, hint="remove endpoint.alarms, or enable one of them")
    for key, group in groups.items():
        if group.enabled:
            yield from _evaluation(f"{_AT}.{key}", group)


def _groups(alarms: Alarms) -> dict[str, AlarmTiming]:
    return {"errors_5xx": alarms.errors_5xx, "latency": alarms.latency, "memory": alarms.memory}


def _evaluation(at: str, group: AlarmTiming) -> Iterator[Issue]:
    depends_on = (f"{at}.period", f"{at}.evaluation_periods", f"{at}.datapoints_to_alarm")
    if group.period % 60:
        what = f"{group.period} s are no whole minutes"
        yield Issue(path=f"{at}.period", what=what, hint="such as 60 or 5m")
    if group.datapoints_to_alarm > group.evaluation_periods:
        what = f"{group.datapoints_to_alarm} of {group.evaluation_periods} periods"
        hint = f"at most evaluation_periods ({group.evaluation_periods})"
        yield Issue(path=f"{at}.datapoints_to_alarm", what=what, hint=hint, depends_on=depends_on)
    longest = LONGEST_EVALUATION if group.period >= _HOUR else LONGEST_PERIOD
    if group.period * group.evaluation_periods > longest:
        what = (
            f"{group.evaluation_periods} periods of {group.period} s are longer than CloudWatch's {longest} s"
        )
        hint = f"at most {longest // group.period}"
        yield Issue(path=f"{at}.evaluation_periods", what=what, hint=hint, depends_on=depends_on)


RULES: tuple[Rule, ...] = (_topic, _periods)
