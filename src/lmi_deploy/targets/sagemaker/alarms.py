"""From `endpoint.alarms` to the settings of the alarms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.recipe_alarm_keys import Alarms, AlarmTiming
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.sagemaker.alarm_settings import AlarmKind, AlarmRule, EndpointAlarms

_LATENCY: Final = 30_000
"""Milliseconds: half of the 60 s after which SageMaker ends a request (its API reference, InvokeEndpoint)."""
_ASYNC_LATENCY: Final = 1_800_000
"""Half of the hour that an asynchronous request may take (InvokeEndpointAsync, InvocationTimeoutSeconds)."""


def alarms_of(recipe: Recipe) -> EndpointAlarms | None:
    alarms = recipe.endpoint.alarms
    if alarms is None:
        return None
    queued = recipe.endpoint.asynchronous is not None
    return EndpointAlarms(
        topic=alarms.topic, notify_ok=alarms.notify_ok, rules=tuple(_rules(alarms, queued=queued))
    )


def _rules(alarms: Alarms, *, queued: bool) -> Iterator[AlarmRule]:
    errors, latency, memory = alarms.errors_5xx, alarms.latency, alarms.memory
    if errors.enabled:
        yield _rule("errors-5xx", errors, errors.threshold_percent, "Average")
    if latency.enabled:
        threshold = latency.threshold_ms or (_ASYNC_LATENCY if queued else _LATENCY)
        yield _rule("latency", latency, float(threshold), f"p{latency.percentile:g}")
    if memory.enabled:
        # Over all instances: an average would hide the one that is about to fail.
        yield _rule("memory", memory, memory.threshold_percent, "Maximum")


def _rule(kind: AlarmKind, given: AlarmTiming, threshold: float, statistic: str) -> AlarmRule:
    return AlarmRule(
        kind=kind,
        threshold=threshold,
        statistic=statistic,
        period=given.period,
        evaluation_periods=given.evaluation_periods,
        datapoints_to_alarm=given.datapoints_to_alarm,
    )
