"""What a model gets of the endpoint that it shares: from the recipe, else derived from its degree and its weights."""

from __future__ import annotations

from math import ceil

from lmi_deploy.catalog.instances import Instance, chosen
from lmi_deploy.domain.recipe_endpoint_keys import Endpoint
from lmi_deploy.domain.recipe_instance_keys import Component
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.sagemaker.component_settings import ComponentPlace
from lmi_deploy.errors import Unresolvable
from lmi_deploy.sizing.component_packing import InstanceShare, default_memory_mb, unplaced, whole


def component_place(recipe: Recipe, *, degree: int, weights: int) -> ComponentPlace | None:
    """Unresolvable, with the numbers, if its copies do not even fit onto the instances alone."""
    if recipe.endpoint.share is None:
        return None
    (machine,) = chosen(recipe)
    given = recipe.endpoint.component or Component()
    accelerators = given.accelerators or (
        0 if machine.kind == "cpu" else needed_accelerators(machine, degree)
    )
    place = ComponentPlace(
        endpoint=recipe.endpoint.share,
        copies=recipe.endpoint.initial_copies,
        accelerators=accelerators,
        memory_mb=given.memory_mb or default_memory_mb(machine, accelerators, weights),
        cpus=given.cpus or 0,
    )
    _require_room(place, machine, recipe.endpoint)
    return place


def needed_accelerators(machine: Instance, degree: int) -> int:
    """Devices: of a Neuron device the degree counts the cores."""
    cores = (machine.accelerators.cores if machine.accelerators else None) or 1
    return ceil(degree / cores)


def share_of(place: ComponentPlace) -> InstanceShare:
    return InstanceShare(place.accelerators, place.memory_mb, place.cpus)


def _require_room(place: ComponentPlace, machine: Instance, endpoint: Endpoint) -> None:
    instance, each, count = whole(machine), share_of(place), endpoint.most_instances
    most = max(place.copies, endpoint.autoscaling.most if endpoint.autoscaling else 0)
    if instance is None:
        return
    if not instance.holds(each):
        raise Unresolvable(
            f"endpoint.component: a copy takes {each.words}, and {machine.name} has {instance.words}",
            hint="give it less (endpoint.component), or use a larger instance type",
        )
    if unplaced([each] * most, instance, count):
        key = "endpoint.component.copies" if most == place.copies else "endpoint.autoscaling.max"
        larger = "endpoint.instance_scaling.max" if endpoint.instance_scaling else "endpoint.count"
        raise Unresolvable(
            f"{key}: {most} copies of {each.words} do not fit onto {count} x {machine.name} with {instance.words}",
            hint=f"use fewer copies, or a larger {larger}",
        )
