"""The instance types, checked against engine, tensor-parallel degree, volume and instance pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lmi_deploy.catalog.instances import Instance, Kind, chosen, devices, instance
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.recipe_keys import AUTO_INSTANCE, Recipe
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.recipe.checks.issue import Issue, Rule

_DEVICES: Final[Mapping[Kind, str]] = {
    "gpu": "a GPU",
    "cpu": "a CPU",
    "neuron": "NeuronCores",
    "gaudi": "Gaudi",
}
_LADDER = (
    "ml.g5.xlarge",
    "ml.g5.12xlarge",
    "ml.g5.48xlarge",
    "ml.p4d.24xlarge",
    "ml.p5.48xlarge",
    "ml.inf2.xlarge",
    "ml.inf2.24xlarge",
    "ml.inf2.48xlarge",
    "ml.trn1.32xlarge",
)
"""What is suggested if the chosen family has nothing large enough; cheapest first."""
_POOLS: Final = "endpoint.instance_pools"
_NOT_WITH_POOLS: Final = {
    "share": "not yet: a shared endpoint has one type, by which lmi places the copies",
    "candidate": "not yet: each version has one type",
}
"""Keys of the group endpoint, and why they do not go with instance pools."""


def in_words(machine: Instance) -> str:
    """Such as `4 GPUs`."""
    count = devices(machine)
    what = "NeuronCore" if machine.kind == "neuron" else "GPU"
    if not count:
        return "no accelerator" if count == 0 else "an unknown number of devices"
    return counted(count, what)


def _named(recipe: Recipe) -> Iterator[Issue]:
    if not recipe.instance_type:
        hint = "such as ml.g5.xlarge (1 GPU of 24 GB) or ml.g5.12xlarge (4); or endpoint: {target: local}"
        what = "missing; target sagemaker needs it"
        yield Issue(path="instance_type", what=what, hint=hint, depends_on=("endpoint.target",))
    elif "auto" in recipe.instance_type and recipe.instance_type != AUTO_INSTANCE:
        yield Issue(
            path="instance_type",
            what="auto cannot be combined with other types",
            hint="write auto alone, or remove it",
        )
    elif len(set(recipe.instance_type)) < len(recipe.instance_type):
        yield Issue(path="instance_type", what="lists a type twice", hint="list each type once")


def _engine(recipe: Recipe) -> Iterator[Issue]:
    bad = {machine.name: machine for machine in chosen(recipe) if _instead(recipe, machine)}
    if bad:
        have = ", ".join(f"{name} has {in_words(machine)}" for name, machine in bad.items())
        hint = _instead(recipe, next(iter(bad.values())))
        what = f"{have}; engine {recipe.engine} needs {_wants(recipe)}"
        yield Issue(path="instance_type", what=what, hint=hint, depends_on=("engine",))


def _wants(recipe: Recipe) -> str:
    return " or ".join(_DEVICES[kind] for kind in ENGINES[recipe.engine].devices)


def _instead(recipe: Recipe, machine: Instance) -> str:
    """What to do if this engine does not run there; empty if it does."""
    module = ENGINES.get(recipe.engine)
    if module is None or machine.kind in module.devices:
        return ""
    on_neuron = module.devices[0] == "neuron"
    usual = "a Neuron type such as ml.inf2.xlarge" if on_neuron else "a GPU type such as ml.g5.xlarge"
    other = ", or engine: accelerate, which runs on a CPU as well" if machine.kind == "cpu" else ""
    return f"use {usual}{other}"


def _degree(recipe: Recipe) -> Iterator[Issue]:
    machines = chosen(recipe)
    counts = {devices(machine) for machine in machines}
    if recipe.tensor_parallel_degree is not None:
        yield from _too_many(recipe.tensor_parallel_degree, machines)
    elif None in counts:
        unknown = next(machine.name for machine in machines if devices(machine) is None)
        what = f"auto means all devices of the instance, but lmi does not know how many {unknown} has"
        yield _about_degree(what, "write the number")
    elif len({count or 1 for count in counts if count is not None}) > 1:
        each = ", ".join(f"{machine.name} has {in_words(machine)}" for machine in machines)
        least = min(count or 1 for count in counts if count is not None)
        what = f"auto means all devices of the instance, and these types have different numbers: {each}"
        yield _about_degree(
            what, f"write tensor_parallel_degree: {least}, or use types with equal numbers of devices"
        )


def _too_many(degree: int, machines: tuple[Instance, ...]) -> Iterator[Issue]:
    small = {machine.name: machine for machine in machines if _is_small(machine, degree)}
    if small:
        names = ", nor ".join(f"{name}, which has {in_words(machine)}" for name, machine in small.items())
        larger = _larger(next(iter(small.values())), degree)
        other = f"use {larger.name} ({in_words(larger)}), or " if larger else ""
        yield _about_degree(f"{degree} does not fit {names}", f"{other}tensor_parallel_degree: auto")


def _is_small(machine: Instance, degree: int) -> bool:
    count = devices(machine)
    return count is not None and degree > max(count, 1)


def _about_degree(what: str, hint: str) -> Issue:
    return Issue(path="tensor_parallel_degree", what=what, hint=hint, depends_on=("instance_type",))


def _larger(machine: Instance, degree: int) -> Instance | None:
    """The smallest of its family, else of a few usual types, with so many devices."""
    kind = "neuron" if machine.kind == "neuron" else "gpu"
    sizes = ("xlarge", *(f"{count}xlarge" for count in (2, 6, 8, 12, 16, 24, 32, 48)))
    names = (*(f"ml.{machine.family}.{size}" for size in sizes), *_LADDER)
    known = (instance(name) for name in names)
    return next((one for one in known if one and one.kind == kind and (devices(one) or 0) >= degree), None)


def _volume(recipe: Recipe) -> Iterator[Issue]:
    """In a mixed list the size applies to the types that take a volume."""
    machines = chosen(recipe)
    if recipe.endpoint.volume_gb is None or not machines:
        return
    if all(machine.refuses_volume for machine in machines):
        names = ", ".join(machine.name for machine in machines)
        have = "has local disks" if len(machines) == 1 else "have local disks"
        what = f"{names} {have}; SageMaker refuses a volume size for such types"
        yield Issue(path="endpoint.volume_gb", what=what, hint="omit it", depends_on=("instance_type",))


def _pools(recipe: Recipe) -> Iterator[Issue]:
    endpoint = recipe.endpoint
    if endpoint.instance_pools is None:
        return
    if recipe.instance_type == AUTO_INSTANCE or len(recipe.instance_type) == 1:
        what = f"names one type, and {_POOLS} needs several"
        hint = f"list two to five types, the preferred one first, or remove {_POOLS}"
        yield Issue(path="instance_type", what=what, hint=hint, depends_on=(_POOLS,))
    for key, why in _NOT_WITH_POOLS.items():
        if getattr(endpoint, key):
            what = f"cannot be combined with {_POOLS}: {why}"
            yield Issue(path=f"endpoint.{key}", what=what, hint="remove one of them", depends_on=(_POOLS,))
    if recipe.compile is not None:
        what = f"cannot be combined with {_POOLS}: a model is compiled for one type"
        yield Issue(path="compile", what=what, hint="remove one of them", depends_on=(_POOLS,))


RULES: tuple[Rule, ...] = (_named, _engine, _degree, _volume, _pools)
