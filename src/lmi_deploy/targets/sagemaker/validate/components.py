"""A model on a shared endpoint: what belongs to the endpoint as a whole, and what a copy can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.catalog.instances import chosen
from lmi_deploy.domain.recipe_keys import AUTO_INSTANCE, Recipe
from lmi_deploy.recipe.checks.issue import Issue, Rule
from lmi_deploy.targets.sagemaker.component_place import needed_accelerators

_OF_AN_ENDPOINT: Final = {
    "alarms": "not yet: lmi watches no model of a shared endpoint",
    "asynchronous": "SageMaker has no asynchronous requests to inference components",
    "data_capture": "not yet: lmi captures no requests of a shared endpoint",
    "network_isolation": "not yet: lmi sets it for no shared endpoint",
    "scheduler_role": "the schedule would delete the endpoint, and with it the other models' service",
    "update": "it replaces the instances of an endpoint, and SageMaker replaces copies of a component one by one",
}
"""Keys of the group endpoint, and why they do not go with `share`."""


def _share(recipe: Recipe) -> Iterator[Issue]:
    endpoint = recipe.endpoint
    if endpoint.share is None:
        if endpoint.component is not None:
            yield _issue(
                "endpoint.component", "has no effect without endpoint.share", "add it, or remove this"
            )
        return
    if endpoint.share == recipe.name:
        what = "is this deployment's own name; the endpoint needs another one"
        yield _issue("endpoint.share", what, "such as the team's name", "name")
    for key, why in _OF_AN_ENDPOINT.items():
        if getattr(endpoint, key):
            yield _issue(f"endpoint.{key}", f"cannot be combined with endpoint.share: {why}", "remove it")
    if recipe.instance_type == AUTO_INSTANCE or len(recipe.instance_type) > 1:
        what = "a shared endpoint has one type, which all its recipes name"
        yield _issue("instance_type", what, "write one type")


def _copies(recipe: Recipe) -> Iterator[Issue]:
    endpoint = recipe.endpoint
    copies, scaling = endpoint.component.copies if endpoint.component else None, endpoint.autoscaling
    if endpoint.share is None or scaling is None or copies is None or scaling.min <= copies <= scaling.max:
        return
    what = f"{copies} is outside of autoscaling, {scaling.min} to {scaling.max}"
    hint = f"omit it: it starts with {max(scaling.min, 1)}"
    yield _issue("endpoint.component.copies", what, hint, "endpoint.autoscaling")


def _instances(recipe: Recipe) -> Iterator[Issue]:
    """Managed instance scaling, which SageMaker offers for inference components."""
    endpoint, at = recipe.endpoint, "endpoint.instance_scaling"
    scaling = endpoint.instance_scaling
    if scaling is None:
        return
    if endpoint.share is None:
        yield _issue(at, "has no effect without endpoint.share", "use endpoint.autoscaling, or add share")
        return
    if scaling.min > scaling.max:
        yield _issue(f"{at}.min", f"{scaling.min} is more than max ({scaling.max})", "exchange them")
    elif endpoint.count is not None and not scaling.min <= endpoint.count <= scaling.max:
        what = f"{endpoint.count} is outside of instance_scaling, {scaling.words}"
        yield _issue("endpoint.count", what, f"omit it: it starts with {max(scaling.min, 1)}", at)


def _accelerators(recipe: Recipe) -> Iterator[Issue]:
    machines, given = chosen(recipe), recipe.endpoint.component
    if recipe.endpoint.share is None or given is None or given.accelerators is None or len(machines) != 1:
        return
    machine, degree, key = machines[0], recipe.tensor_parallel_degree, "endpoint.component.accelerators"
    if machine.kind == "cpu":
        yield _issue(key, f"{machine.name} has no accelerators", "remove it", "instance_type")
    elif machine.accelerators and given.accelerators > machine.accelerators.count:
        what = f"{given.accelerators}, and {machine.name} has {machine.accelerators.count}"
        yield _issue(key, what, "use fewer, or a larger type", "instance_type")
    elif degree is not None and needed_accelerators(machine, degree) > given.accelerators:
        needed = needed_accelerators(machine, degree)
        what = f"{given.accelerators}, but tensor_parallel_degree: {degree} needs {needed}"
        yield _issue(key, what, f"write {needed}, or a smaller degree", "tensor_parallel_degree")


def _issue(path: str, what: str, hint: str, *also: str) -> Issue:
    depends_on = tuple(key for key in ("endpoint.share", *also) if key != path)
    return Issue(path=path, what=what, hint=hint, depends_on=depends_on)


RULES: tuple[Rule, ...] = (_share, _copies, _instances, _accelerators)
