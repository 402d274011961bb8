"""The hardware of SageMaker's instance types. Every type that an endpoint can have is listed, some only by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from lmi_deploy.catalog import sagemaker_limits
from lmi_deploy.domain.byte_units import GIB, MIB
from lmi_deploy.domain.recipe_keys import Recipe

Kind = Literal["gpu", "neuron", "gaudi", "cpu"]
NEURON_DEGREES: Final[Mapping[str, tuple[int, ...]]] = {
    "inf2": (1, 2, 4, 8, 12, 24),
    "trn1": (1, 2, 8, 16, 32),
    "trn1n": (1, 2, 8, 16, 32),
}
"""Tensor-parallel degrees by instance family, from AWS Neuron's guides for transformers-neuronx and for generative
models and from its published configurations (2026-11-21); the pages disagree on 1, 12 and 16.
"""
Architecture = Literal["x86_64", "arm64"]

_KINDS: Final[dict[str, Kind]] = {"p2": "gpu", "p6e-gb200": "gpu", "dl1": "gaudi"}
"""Families that have accelerators although the table does not describe them."""
_OWN_DISK: Final = ("g5", "g6", "g7", "p5", "p6", "trn1", "trn2")
"""Families with local disks that no letter `d` gives away: the rule of SageMaker's own SDK, with the p6 and g7 that
are younger than it. SageMaker refuses a volume size for them (aws/sagemaker-python-sdk issue 4828)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerators:
    """All of one instance; they are identical."""

    kind: Literal["gpu", "neuron"]
    name: str
    count: int
    memory: int
    """Bytes of one, as EC2 states them."""
    usable: int | None
    """Bytes of one device that torch sees in all, the minimum over drivers. None: unknown."""
    compute_capability: float | None
    """Of a GPU."""
    cores: int | None
    """NeuronCores of one device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """None means unknown; `known` says whether the table has more than the name."""

    name: str
    kind: Kind
    architecture: Architecture
    known: bool
    vcpu: int | None = None
    memory: int | None = None
    """Bytes."""
    nvme: int | None = None
    """Bytes of local disks, all together."""
    network_gbps: float | None = None
    """The baseline, not the burst value."""
    accelerators: Accelerators | None = None

    @property
    def family(self) -> str:
        return self.name.split(".")[1]

    @property
    def refuses_volume(self) -> bool:
        """Whether SageMaker refuses VolumeSizeInGB, as for every type with local disks."""
        return bool(self.nvme) or has_local_disks(self.name)


def has_local_disks(name: str) -> bool:
    """By the name of its family, for types that the table does not describe."""
    family = name.split(".")[1]
    return "d" in family or family.startswith(_OWN_DISK)


def source() -> tuple[str, str]:
    """The source of the table, and its date."""
    return _table()["source"], _table()["date"]


def sources() -> tuple[str, ...]:
    """Where each part of the table is from."""
    return tuple(f"{part}: {origin}" for part, origin in _table()["sources"].items())


def ec2_regions(name: str) -> tuple[str, ...]:
    """The regions in which EC2 has a type that has accelerators; empty if unknown. SageMaker may have it in fewer."""
    return tuple(_table()["ec2_regions"].get(name, "").split())


def names() -> tuple[str, ...]:
    """Every type that an endpoint may name."""
    return sagemaker_limits.names("instance_types")


@cache
def instance(name: str) -> Instance | None:
    """None if SageMaker has no such type for endpoints."""
    if name not in names():
        return None
    family = name.split(".")[1]
    existing = _table()["types"].get(name)
    architecture: Architecture = "arm64" if _is_arm(family) else "x86_64"
    if existing is None:
        kind = _KINDS.get(family, "cpu")
        return Instance(name=name, kind=kind, architecture=architecture, known=False)
    accelerators = _accelerators(existing)
    return Instance(
        name=name,
        kind=accelerators.kind if accelerators else "cpu",
        architecture=architecture,
        known=True,
        vcpu=existing["vcpu"],
        memory=int(existing["memory_gib"] * GIB),
        nvme=existing["nvme_gb"] * 10**9,
        network_gbps=existing.get("network_gbps"),
        accelerators=accelerators,
    )


def _accelerators(existing: dict[str, Any]) -> Accelerators | None:
    name = existing.get("accelerator")
    if name is None:
        return None
    device = _table()["accelerators"][name]
    observed = device.get("torch_gib")
    return Accelerators(
        kind=device["kind"],
        name=name,
        count=existing["count"],
        memory=device["memory_mib"] * MIB,
        usable=int(observed[0] * GIB) if observed else None,
        compute_capability=device.get("compute_capability"),
        cores=device.get("cores"),
    )


def _is_arm(family: str) -> bool:
    """Graviton carries a `g` after the generation (c7g, m6gd); Grace comes with the GB200."""
    letters = family.lstrip("abcdefghijklmnopqrstuvwxyz").lstrip("0123456789")
    return letters.startswith("g") or family.endswith("gb200")


@cache
def _table() -> dict[str, Any]:
    path = Path(__file__).with_name("instances.json")
    table: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
    return table


def chosen(recipe: Recipe) -> tuple[Instance, ...]:
    """The recipe's instance types, as the catalog knows them."""
    found = (instance(name) for name in recipe.instance_type)
    return tuple(each for each in found if each is not None)


def device_count(recipe: Recipe) -> int:
    """The devices (GPUs or NeuronCores) of the smallest instance type that the model gets; 1 without any."""
    return min((_devices_for(recipe, machine) for machine in chosen(recipe)), default=1)


def _devices_for(recipe: Recipe, machine: Instance) -> int:
    """On a shared endpoint a copy gets a part of the instance."""
    component, existing = recipe.endpoint.component, devices(machine) or 1
    if recipe.endpoint.share is None:
        return existing
    if component is not None and component.accelerators is not None:
        cores = (machine.accelerators.cores if machine.accelerators else None) or 1
        return min(existing, component.accelerators * cores)
    return min(existing, recipe.tensor_parallel_degree or existing)


def devices(machine: Instance) -> int | None:
    """Over how many devices a model can be cut: GPUs or NeuronCores, 0 without any. None: the catalog does not know."""
    existing = machine.accelerators
    if existing is not None:
        return existing.count * (existing.cores or 1)
    return 0 if machine.kind == "cpu" else None
