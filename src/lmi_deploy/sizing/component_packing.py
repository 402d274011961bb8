"""Whether the copies of several models fit onto the instances that they share.

`ComputeResourceRequirements` is what each copy has to itself on one instance: accelerators, CPU cores and at least
`MinMemoryRequiredInMb` (botocore's service model of SageMaker). What AWS keeps of an instance for itself is not
documented: all of it counts here, so that what does not fit here does not fit on AWS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lmi_deploy.catalog.instances import Instance
from lmi_deploy.domain.byte_units import MIB

_EXTRA_MB: Final = 2048
"""MiB of memory for the server beside the weights that it loads."""
_USABLE: Final = 0.9


@dataclass(frozen=True, slots=True, order=True)
class InstanceShare:
    """Of one instance: what a copy has to itself, or what is free. The scarcest first, for the order of placement."""

    accelerators: int
    memory_mb: int
    cpus: int

    def holds(self, other: InstanceShare) -> bool:
        return (
            self.accelerators >= other.accelerators
            and self.memory_mb >= other.memory_mb
            and self.cpus >= other.cpus
        )

    def without(self, other: InstanceShare) -> InstanceShare:
        return InstanceShare(
            self.accelerators - other.accelerators, self.memory_mb - other.memory_mb, self.cpus - other.cpus
        )

    @property
    def words(self) -> str:
        devices = f"{self.accelerators} accelerator{'s' * (self.accelerators > 1)}, " * bool(
            self.accelerators
        )
        return f"{devices}{self.memory_mb:,} MiB" + f", {self.cpus} CPU cores" * bool(self.cpus)


def whole(machine: Instance) -> InstanceShare | None:
    """All of an instance; None if the catalog knows only its name."""
    if machine.memory is None or machine.vcpu is None or not machine.known:
        return None
    count = machine.accelerators.count if machine.accelerators else 0
    return InstanceShare(count, machine.memory // MIB, machine.vcpu)


def default_memory_mb(machine: Instance, accelerators: int, weights: int) -> int:
    """MiB for a copy: its weights and some more, at most its accelerators' part of nine tenths of the memory."""
    wanted = -(-weights // MIB) + _EXTRA_MB
    total = whole(machine)
    if total is None:
        return wanted
    part = accelerators / total.accelerators if total.accelerators and accelerators else 1.0
    return min(wanted, int(total.memory_mb * _USABLE * part))


def unplaced(copies: Sequence[InstanceShare], instance: InstanceShare, count: int) -> int:
    """How many of the copies find no room on `count` instances: first fit, the largest copy first."""
    free, left = [instance] * count, 0
    for copy in sorted(copies, reverse=True):
        place = next((index for index, rest in enumerate(free) if rest.holds(copy)), None)
        if place is None:
            left += 1
        else:
            free[place] = free[place].without(copy)
    return left
