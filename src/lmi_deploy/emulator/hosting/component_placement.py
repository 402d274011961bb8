"""Whether the copies of inference components fit onto the instances of their variant.

`ComputeResourceRequirements` is what each copy gets to itself on one instance: accelerators, CPU cores, and at least
`MinMemoryRequiredInMb` (botocore's service model). What AWS keeps of an instance for itself is not documented, so all
of it can be used here: what does not fit here does not fit on AWS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final

from lmi_deploy.catalog.instances import Instance, instance
from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed
from lmi_deploy.emulator.hosting.resource_tasks import Key
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.resources import INFERENCE_COMPONENT

NO_ROOM: Final = (
    "There is not enough hardware resources on the instances for this endpoint to create a copy of the inference "
    "component."
)
"""AWS's FailureReason (aws/sagemaker-python-sdk issue 5558)."""
_RUNNING: Final = ("InService", "Updating")


@dataclass(frozen=True, slots=True, order=True)
class _Share:
    """Of one instance: what a copy occupies, or what is free. The scarcest first, for the order of placement."""

    accelerators: float
    memory: float
    """Bytes."""
    cores: float

    def holds(self, needed: _Share) -> bool:
        return all(free >= asked for free, asked in zip(astuple(self), astuple(needed), strict=True))

    def without(self, taken: _Share) -> _Share:
        return _Share(*(free - used for free, used in zip(astuple(self), astuple(taken), strict=True)))


def require_room(context: EmulatorContext, key: Key, spec: Row, variant: Mapping[str, Any]) -> None:
    """HostingFailed if the copies that `key` shall have do not fit beside those of the other components.

    An instance type that the catalog knows only by name, a list of instance pools and a partition of an accelerator
    are not checked.
    """
    row = context.table(INFERENCE_COMPONENT.table, key[0]).get(key[1])
    type_name = variant["params"].get("InstanceType")
    hardware = instance(type_name) if type_name else None
    if row is None or hardware is None or not hardware.known:
        return
    running = [(spec, row["desired"]), *_others(context, key, row)]
    copies = [_needed(each["description"]) for each, count in running for _ in range(count)]
    if not _fit(copies, _whole(hardware), _most(variant, len(copies))):
        raise HostingFailed(NO_ROOM)


def needed_instances(context: EmulatorContext, region: str, endpoint: str, variant: Mapping[str, Any]) -> int:
    """The fewest that hold all copies on the variant: of an instance type that the catalog knows only by name, as many
    as it has.
    """
    hardware = instance(variant["params"].get("InstanceType") or "")
    if hardware is None or not hardware.known:
        return int(variant["count"])
    found = [
        (row["pending"] or row["spec"], max(row["copies"], row["desired"]))
        for _, row in context.table(INFERENCE_COMPONENT.table, region).rows()
        if (row["endpoint"], row["variant"]) == (endpoint, variant["name"]) and row["status"] != "Failed"
    ]
    copies = [_needed(spec["description"]) for spec, count in found for _ in range(count)]
    whole = _whole(hardware)
    return next((count for count in range(len(copies) + 1) if _fit(copies, whole, count)), len(copies))


def _others(context: EmulatorContext, key: Key, row: Row) -> Iterator[tuple[Row, int]]:
    """With their copies. Of components that are created at the same time, the older one is placed first."""
    for name, other in context.table(INFERENCE_COMPONENT.table, key[0]).rows():
        beside = (other["endpoint"], other["variant"]) == (row["endpoint"], row["variant"])
        if not beside or name == key[1]:
            continue
        older = row["status"] != "Creating" or (other["created"], name) < (row["created"], key[1])
        if other["status"] == "Creating" and older:
            yield other["spec"], other["desired"]
        elif other["status"] in _RUNNING:
            yield other["spec"], other["copies"]


def _needed(description: Mapping[str, Any]) -> _Share:
    """Nothing for an adapter, which runs in the share of its base component; nor for a partition of an accelerator."""
    asked = description.get("ComputeResourceRequirements", {})
    partition = "AcceleratorPartitionType" in asked
    return _Share(
        accelerators=0 if partition else asked.get("NumberOfAcceleratorDevicesRequired", 0),
        memory=asked.get("MinMemoryRequiredInMb", 0) * MIB,
        cores=asked.get("NumberOfCpuCoresRequired", 0),
    )


def _whole(hardware: Instance) -> _Share:
    accelerators = hardware.accelerators.count if hardware.accelerators else 0
    return _Share(accelerators=accelerators, memory=hardware.memory or 0, cores=hardware.vcpu or 0)


def _most(variant: Mapping[str, Any], copies: int) -> int:
    """Instances that the variant may have: with managed scaling without a maximum, one for each copy."""
    scaling = variant["params"].get("ManagedInstanceScaling", {})
    if scaling.get("Status") != "ENABLED":
        return int(variant["count"])
    return int(scaling.get("MaxInstanceCount", copies))


def _fit(copies: list[_Share], whole: _Share, most: int) -> bool:
    """First fit, the largest copy first."""
    free = [whole] * most
    for copy in sorted(copies, reverse=True):
        place = next((index for index, rest in enumerate(free) if rest.holds(copy)), None)
        if place is None:
            return False
        free[place] = free[place].without(copy)
    return True
