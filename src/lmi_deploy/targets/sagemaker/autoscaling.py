"""From `endpoint.autoscaling` to the settings of the scalable target."""

from __future__ import annotations

from dataclasses import replace

from lmi_deploy.domain.recipe_keys import Pairs, Recipe
from lmi_deploy.domain.recipe_scaling_keys import WAKE_UP, Autoscaling, StepScaling, TrackedMetric
from lmi_deploy.domain.sagemaker.resource_settings import VARIANT
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling

OWN_NAMESPACES = ("AWS/SageMaker", "/aws/sagemaker/Endpoints")
"""Of the metrics that SageMaker measures of each variant (its developer guide, "Metrics for monitoring with Amazon
CloudWatch").
"""


def scaling_of(recipe: Recipe) -> Scaling | None:
    autoscaling = recipe.endpoint.autoscaling
    if autoscaling is None:
        return None
    return Scaling(
        least=autoscaling.min,
        most=autoscaling.max,
        invocations=autoscaling.invocations_per_instance or 0,
        concurrency=autoscaling.concurrent_requests_per_model or 0.0,
        metric=_metric(autoscaling.metric, recipe.name) if autoscaling.metric else None,
        backlog=autoscaling.backlog_per_instance or 0.0,
        steps=_steps(autoscaling, recipe.name),
        scale_in=autoscaling.scale_in,
        scale_in_cooldown=autoscaling.scale_in_cooldown,
        scale_out_cooldown=autoscaling.scale_out_cooldown,
        scheduled=tuple(sorted(autoscaling.scheduled, key=lambda each: each.name)),
    )


def _steps(autoscaling: Autoscaling, endpoint: str) -> tuple[StepScaling, ...]:
    steps = [_step(each, endpoint) for each in autoscaling.steps]
    if autoscaling.least == 0:
        steps.append(wake_up(endpoint))
    return tuple(sorted(steps, key=lambda each: each.name))


def wake_up(endpoint: str) -> StepScaling:
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


def _step(step: StepScaling, endpoint: str) -> StepScaling:
    """In the form in which it is read back."""
    signed = "" if step.unit == "exact" else "+"
    adjustments = sorted((float(distance), int(change)) for distance, change in step.adjustments)
    return replace(
        step,
        adjustments=tuple((f"{distance:g}", f"{change:{signed}d}") for distance, change in adjustments),
        dimensions=tuple(sorted(step.dimensions or default_dimensions(step.namespace, endpoint))),
    )


def _metric(metric: TrackedMetric, endpoint: str) -> TrackedMetric:
    dimensions = metric.dimensions or default_dimensions(metric.namespace, endpoint)
    return replace(metric, dimensions=tuple(sorted(dimensions)))


def default_dimensions(namespace: str, endpoint: str) -> Pairs:
    if namespace not in OWN_NAMESPACES:
        return ()
    return (("EndpointName", endpoint), ("VariantName", VARIANT))
