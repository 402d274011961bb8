"""The hardware for a model: devices of one kind, and their machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from lmi_deploy.catalog import accelerators, instances
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.sizing.tensors import CannotTell

LEAST_SHARE: Final = 0.91
"""Of the stated memory, if the memory that torch sees is unknown: the smallest share of any GPU of the table (a T4
has 14.56 of its 16 GiB; the others 0.98 and more).
"""
_VISIBLE_TO_TORCH: Final = 0.97
"""Share of the memory that nvidia-smi prints: a T4 has 15360 MiB there and 14.56 GiB in torch, an A10G 23028 MiB and
21.98 GiB.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """`memory` is what the framework sees of one device, in bytes; for a CPU the machine's RAM."""

    kind: Literal["gpu", "neuron", "cpu"]
    name: str
    count: int
    memory: int
    compute_capability: float | None = None
    host_memory: int | None = None
    disk: int | None = None
    links: str = ""
    """How the devices are joined; empty: unknown."""
    instance: str = ""
    cores: int = 1
    """NeuronCores of one device."""
    estimated: bool = False
    """`memory` is derived from the nominal size, not reported."""


def instance_devices(name: str) -> Devices:
    """CannotTell if the table does not describe the type."""
    found = instances.instance(name)
    if found is None:
        raise CannotTell(f"SageMaker has no instance type {name} for endpoints")
    if not found.known or found.memory is None:
        raise CannotTell(f"lmi does not know the memory of {name}")
    existing = found.accelerators
    if existing is None:
        return Devices(
            kind="cpu", name="CPU", count=1, memory=found.memory, host_memory=found.memory, instance=name
        )
    return Devices(
        kind=existing.kind,
        name=existing.name,
        count=existing.count,
        memory=existing.usable or _least(existing.kind, existing.memory),
        compute_capability=existing.compute_capability,
        host_memory=found.memory,
        disk=found.nvme or None,
        links=accelerators.links(name),
        instance=name,
        cores=existing.cores or 1,
        estimated=existing.usable is None and existing.kind == "gpu",
    )


def named_devices(name: str, count: int) -> Devices:
    """CannotTell for an unknown name, or one of several sizes."""
    found = accelerators.accelerator(name)
    if isinstance(found, str):
        raise CannotTell(found)
    return Devices(
        kind=found.kind,
        name=found.name,
        count=count,
        memory=found.usable or _least(found.kind, found.memory),
        compute_capability=found.compute_capability,
        cores=found.cores or 1,
        estimated=found.usable is None and found.kind == "gpu",
    )


def machine_devices(machine: Machine) -> Devices:
    """GPUs if it has any, all as large as the smallest; else its memory."""
    if not machine.accelerators:
        return Devices(kind="cpu", name="CPU", count=1, memory=machine.memory, host_memory=machine.memory)
    name, smallest = min(machine.accelerators, key=lambda device: device[1])
    return Devices(
        kind="gpu",
        name=name,
        count=len(machine.accelerators),
        memory=int(smallest * _VISIBLE_TO_TORCH),
        compute_capability=machine.compute_capability,
        host_memory=machine.memory,
        estimated=True,
    )


def _least(kind: str, nominal: int) -> int:
    return nominal if kind == "neuron" else int(nominal * LEAST_SHARE)
