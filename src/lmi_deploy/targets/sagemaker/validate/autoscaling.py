"""How many instances, and what changes that number: bounds, policies and schedules that Application Auto Scaling or
SageMaker refuses, or that would do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.recipe_scaling_keys import COOLDOWN, MOST_STEPS, WAKE_UP, Autoscaling, ScheduledBounds
from lmi_deploy.domain.schedule_expression import schedule_error, timezone_error
from lmi_deploy.recipe.checks.issue import Issue, Rule

_AT: Final = "endpoint.autoscaling"
_MOST_DIMENSIONS: Final = 30
"""CloudWatch API reference, Metric: Dimensions."""
_MOVERS: Final = tuple(
    f"{_AT}.{key}"
    for key in (
        *("concurrent_requests_per_model", "invocations_per_instance", "scheduled", "metric"),
        *("backlog_per_instance", "steps"),
        *("metric.namespace", "metric.name", "metric.target", "metric.statistic", "metric.dimensions"),
    )
)
_SHARED_ZERO: Final = ("endpoint.share", "endpoint.instance_scaling", f"{_AT}.concurrent_requests_per_model")
_POLICIES: Final = "concurrent_requests_per_model, invocations_per_instance, backlog_per_instance, metric"


def _count(recipe: Recipe) -> Iterator[Issue]:
    scaling, count = recipe.endpoint.autoscaling, recipe.endpoint.count
    if scaling is None or count is None or recipe.endpoint.share or scaling.min <= count <= scaling.max:
        return
    what = f"{count} is outside of autoscaling, {scaling.min} to {scaling.max}"
    hint = f"omit it: it starts with {scaling.min}"
    yield Issue(path="endpoint.count", what=what, hint=hint, depends_on=(_AT,))


def _zero(recipe: Recipe) -> Iterator[Issue]:
    """Only an asynchronous endpoint keeps requests until an instance runs (SageMaker developer guide, "Autoscale an
    asynchronous endpoint"); a request to an inference component without a copy is refused, and its metric starts one
    (the same, "Scale an endpoint to zero instances").
    """
    scaling, queued = recipe.endpoint.autoscaling, recipe.endpoint.asynchronous is not None
    if scaling is None or scaling.least > 0:
        return
    shared = recipe.endpoint.share is not None
    instances = recipe.endpoint.instance_scaling
    empty = instances is not None and instances.min == 0
    if (shared and _tracks(scaling) and empty) or (not shared and queued and scaling.backlog_per_instance):
        if not scaling.scale_in:
            last = "copy" if shared else "instance"
            yield Issue(
                path=f"{_AT}.scale_in",
                what=f"false: nothing removes the last {last}, so that min: 0 has no effect and it always costs",
                hint="remove it, or set min to at least 1",
                depends_on=(f"{_AT}.min", f"{_AT}.scheduled"),
            )
        return
    at = [f"{_AT}.min"] * (scaling.min == 0)
    at += [f"{_AT}.scheduled.{each.name}.min" for each in scaling.scheduled if each.min == 0]
    if shared and not _tracks(scaling):
        what = "0: nothing removes the last copy: it has no target"
        hint = "at least 1, or add concurrent_requests_per_model, such as 4"
    elif shared:
        what = "0: a request starts the first copy again only where the endpoint may have no instance"
        hint = "at least 1, or add endpoint.instance_scaling with min: 0"
    elif queued:
        what = "0: nothing removes the last instance and starts one again: it has no target for the queue"
        hint = "at least 1, or add backlog_per_instance, such as 5"
    else:
        what = "0: a real-time endpoint keeps at least one instance, because a request would find none"
        hint = "at least 1, or use endpoint.asynchronous with backlog_per_instance, or a shared endpoint"
    for path in at:
        yield Issue(
            path=path,
            what=what,
            hint=hint,
            depends_on=("endpoint.asynchronous", f"{_AT}.backlog_per_instance", *_SHARED_ZERO),
        )


def _queue(recipe: Recipe) -> Iterator[Issue]:
    """Source: SageMaker developer guide, "Alarms and logs for tracking metrics from asynchronous endpoints"."""
    scaling, queued = recipe.endpoint.autoscaling, recipe.endpoint.asynchronous is not None
    if scaling is None:
        return
    if scaling.backlog_per_instance and not queued:
        what = "a real-time endpoint has no queue"
        hint = "use concurrent_requests_per_model, or add endpoint.asynchronous"
        path = f"{_AT}.backlog_per_instance"
        if recipe.endpoint.share is not None:
            what, hint = "a model on a shared endpoint has no queue", "use concurrent_requests_per_model"
        yield Issue(path=path, what=what, hint=hint, depends_on=("endpoint.asynchronous", "endpoint.share"))
    of_real_time = {
        "invocations_per_instance": scaling.invocations_per_instance,
        "concurrent_requests_per_model": scaling.concurrent_requests_per_model,
    }
    for key in (key for key, value in of_real_time.items() if value and queued):
        what = "SageMaker does not measure it of an asynchronous endpoint"
        yield Issue(path=f"{_AT}.{key}", what=what, hint="use backlog_per_instance")


def _steps(recipe: Recipe) -> Iterator[Issue]:
    """Sources: Application Auto Scaling API reference, StepAdjustment; its user guide, "Quotas"."""
    scaling = recipe.endpoint.autoscaling
    for step in scaling.steps if scaling else ():
        at = f"{_AT}.steps.{step.name}"
        distances = sorted(float(distance) for distance, _ in step.adjustments)
        if step.name == WAKE_UP and scaling is not None and scaling.least == 0:
            yield Issue(path=at, what="lmi uses this name for the step from 0 to 1", hint="choose another")
        if len(distances) > MOST_STEPS:
            what = f"{len(distances)} steps; Application Auto Scaling accepts {MOST_STEPS}"
            yield Issue(path=f"{at}.adjustments", what=what, hint=f"at most {MOST_STEPS}")
        if not distances or distances[0] != 0 or len({*distances}) < len(distances):
            what = "the distances are not 0 and larger ones, each once"
            yield Issue(path=f"{at}.adjustments", what=what, hint='such as {0: "+1", 50: "+3"}')
        signed = [change for _, change in step.adjustments if change.startswith(("+", "-"))]
        if step.unit == "exact" and signed:
            what = f"{signed[0]}: with unit exact it is the number of instances, without a sign"
            yield Issue(path=f"{at}.adjustments", what=what, hint=f"write {signed[0][1:]}, or remove unit")
        if len(step.dimensions) > _MOST_DIMENSIONS:
            what = f"{len(step.dimensions)} dimensions; CloudWatch accepts {_MOST_DIMENSIONS}"
            yield Issue(path=f"{at}.dimensions", what=what, hint="name those of one metric")


def _policies(recipe: Recipe) -> Iterator[Issue]:
    scaling = recipe.endpoint.autoscaling
    if scaling is None:
        return
    if not _tracks(scaling) and not scaling.scheduled and not scaling.steps:
        units = "copies" if recipe.endpoint.share else "instances"
        what = (
            f"nothing changes the number of {units}: it has no target ({_POLICIES}), no steps and no schedule"
        )
        yield Issue(path=_AT, what=what, hint="such as concurrent_requests_per_model: 8", depends_on=_MOVERS)
    if not _tracks(scaling):
        given = {
            "scale_in": scaling.scale_in is not True,
            "scale_in_cooldown": scaling.scale_in_cooldown != COOLDOWN,
            "scale_out_cooldown": scaling.scale_out_cooldown != COOLDOWN,
        }
        for key in (key for key, is_given in given.items() if is_given):
            what = f"has no effect without a target ({_POLICIES})"
            yield Issue(path=f"{_AT}.{key}", what=what, hint="add one, or remove it", depends_on=_MOVERS)
    elif not scaling.scale_in and scaling.scale_in_cooldown != COOLDOWN:
        what = "has no effect: scale_in: false removes no instance"
        yield Issue(path=f"{_AT}.scale_in_cooldown", what=what, hint="remove one of them")
    if scaling.metric and len(scaling.metric.dimensions) > _MOST_DIMENSIONS:
        what = f"{len(scaling.metric.dimensions)} dimensions; CloudWatch accepts {_MOST_DIMENSIONS}"
        yield Issue(path=f"{_AT}.metric.dimensions", what=what, hint="name those of one metric")


def _tracks(scaling: Autoscaling) -> bool:
    return bool(
        scaling.invocations_per_instance
        or scaling.concurrent_requests_per_model
        or scaling.backlog_per_instance
        or scaling.metric is not None
    )


def _scheduled(recipe: Recipe) -> Iterator[Issue]:
    scaling = recipe.endpoint.autoscaling
    for each in scaling.scheduled if scaling else ():
        at = f"{_AT}.scheduled.{each.name}"
        if error := schedule_error(each.schedule):
            hint = "such as cron(0 20 ? * MON-FRI *), rate(12 hours) or at(2027-01-31T08:00:00)"
            yield Issue(path=f"{at}.schedule", what=f"{each.schedule}: {error}", hint=hint)
        if error := timezone_error(each.timezone) if each.timezone != "UTC" else "":
            hint = "such as Europe/Berlin"
            yield Issue(path=f"{at}.timezone", what=f"{each.timezone}: {error}", hint=hint)
        elif each.timezone != "UTC" and each.schedule.startswith("rate("):
            hint = "remove it, or use cron(...)"
            yield Issue(path=f"{at}.timezone", what="a rate has no time of day, so no time zone", hint=hint)
        if scaling is not None:
            yield from _bounds(at, each, scaling)


def _bounds(at: str, each: ScheduledBounds, scaling: Autoscaling) -> Iterator[Issue]:
    """One bound alone leaves the other one as it is then: by default the recipe's."""
    if each.min is None and each.max is None:
        yield Issue(path=at, what="changes nothing: it has neither min nor max", hint="add one of them")
    low = scaling.min if each.min is None else each.min
    high = scaling.max if each.max is None else each.max
    if low > high:
        key, other = ("max", "min") if each.max is not None and each.min is None else ("min", "max")
        value, limit = (high, low) if key == "max" else (low, high)
        words = "less" if key == "max" else "more"
        owner = "" if None not in (each.min, each.max) else "autoscaling's "
        yield Issue(
            path=f"{at}.{key}",
            what=f"{value} is {words} than {owner}{other} ({limit})",
            hint=f"add {other}, or change {key}" if owner else "exchange them",
        )


RULES: tuple[Rule, ...] = (_count, _zero, _queue, _policies, _steps, _scheduled)
