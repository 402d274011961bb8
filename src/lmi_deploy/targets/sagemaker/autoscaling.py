"""From `endpoint.autoscaling` to the settings of the scalable target: a variant, or an inference component."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lmi_deploy.domain.recipe_keys import Pairs, Recipe
from lmi_deploy.domain.recipe_scaling_keys import WAKE_UP, Autoscaling, StepScaling, TrackedMetric
from lmi_deploy.domain.sagemaker.resource_settings import VARIANT
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling

OWN_NAMESPACES = ("AWS/SageMaker", "/aws/sagemaker/Endpoints")
"""Of the metrics that SageMaker measures of each variant (its developer guide, "Metrics for monitoring with Amazon
CloudWatch").
"""


_COMPONENT_NAMESPACES: Final = ("AWS/SageMaker", "/aws/sagemaker/InferenceComponents")
"""The same of each inference component."""
COMPONENT_DIMENSION: Final = "InferenceComponentName"


def scaling_of(recipe: Recipe) -> Scaling | None:
    autoscaling = recipe.endpoint.autoscaling
    if autoscaling is None:
        return None
    return Scaling(
        least=autoscaling.min,
        most=autoscaling.max,
        invocations=autoscaling.invocations_per_instance or 0,
        concurrency=autoscaling.concurrent_requests_per_model or 0.0,
        metric=_metric(autoscaling.metric, recipe) if autoscaling.metric else None,
        backlog=autoscaling.backlog_per_instance or 0.0,
        steps=_steps(autoscaling, recipe),
        scale_in=autoscaling.scale_in,
        scale_in_cooldown=autoscaling.scale_in_cooldown,
        scale_out_cooldown=autoscaling.scale_out_cooldown,
        scheduled=tuple(sorted(autoscaling.scheduled, key=lambda each: each.name)),
    )


def _steps(autoscaling: Autoscaling, recipe: Recipe) -> tuple[StepScaling, ...]:
    steps = [_step(each, recipe) for each in autoscaling.steps]
    if autoscaling.least == 0:
        steps.append(_first_copy(recipe.name) if recipe.endpoint.share else _first_instance(recipe.name))
    return tuple(sorted(steps, key=lambda each: each.name))


def _first_copy(component: str) -> StepScaling:
    """Target tracking does not leave zero: no copy has a metric. Source: SageMaker developer guide, "Scale an endpoint
    to zero instances", read in November 2026: a change of 1, 60 s of cool-down; an alarm on the sum of 60 s, 1 of 1
    period, missing data is missing. Its threshold is 1: the page's example has GreaterThanThreshold, which would need
    two refused requests in a minute; AWS's notebooks have GreaterThanOrEqualToThreshold, as here. Of one data point
    Average, which `step_policy_request` has, and the page's Maximum are the same.
    """
    return StepScaling(
        name=WAKE_UP,
        namespace="AWS/SageMaker",
        metric="NoCapacityInvocationFailures",
        threshold=1.0,
        adjustments=(("0", "+1"),),
        statistic="Sum",
        dimensions=((COMPONENT_DIMENSION, component),),
        minutes=1,
        cooldown=60,
    )


def _first_instance(endpoint: str) -> StepScaling:
    """Without it a request would wait until the queue is longer than the target. Source: SageMaker developer guide,
    "Autoscale an asynchronous endpoint", "Optional: Define a scaling policy that scales up from zero for new requests",
    with all of its values, compared with the page's source in November 2026: a change of 1 from the threshold on,
    Average, 300 s of cool-down; an alarm at 1 in 2 of 2 periods of 60 s, missing data is missing.
    """
    return StepScaling(
        name=WAKE_UP,
        namespace="AWS/SageMaker",
        metric="HasBacklogWithoutCapacity",
        threshold=1.0,
        adjustments=(("0", "+1"),),
        dimensions=(("EndpointName", endpoint),),
    )


def _step(step: StepScaling, recipe: Recipe) -> StepScaling:
    """In the form in which it is read back."""
    signed = "" if step.unit == "exact" else "+"
    adjustments = sorted((float(distance), int(change)) for distance, change in step.adjustments)
    return replace(
        step,
        adjustments=tuple((f"{distance:g}", f"{change:{signed}d}") for distance, change in adjustments),
        dimensions=tuple(sorted(step.dimensions or _default_dimensions(step.namespace, recipe))),
    )


def _metric(metric: TrackedMetric, recipe: Recipe) -> TrackedMetric:
    dimensions = metric.dimensions or _default_dimensions(metric.namespace, recipe)
    return replace(metric, dimensions=tuple(sorted(dimensions)))


def _default_dimensions(namespace: str, recipe: Recipe) -> Pairs:
    if recipe.endpoint.share is not None:
        return ((COMPONENT_DIMENSION, recipe.name),) if namespace in _COMPONENT_NAMESPACES else ()
    if namespace not in OWN_NAMESPACES:
        return ()
    return (("EndpointName", recipe.name), ("VariantName", VARIANT))
