"""Notes that do not change the verdict: estimates, slow links, host memory and disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.number_text import gib_text
from lmi_deploy.sizing.devices import Devices
from lmi_deploy.sizing.fit_assessment import Checkpoint, Fit, total_size_or_none

_PROCESS: Final = 3 * GIB
"""Host memory of one process with torch and CUDA."""


def notes(checkpoint: Checkpoint, fit: Fit, devices: Devices | None) -> tuple[str, ...]:
    """Empty if there is nothing to note, or if that is unknown."""
    return tuple(_notes(checkpoint, fit, devices)) if devices is not None and fit.verdict != "unknown" else ()


def _notes(checkpoint: Checkpoint, fit: Fit, devices: Devices) -> Iterator[str]:
    if fit.from_config:
        yield "the weights are estimated from config.json, because there are no safetensors headers"
    if devices.estimated:
        yield f"the usable memory of {devices.name} is estimated: {gib_text(devices.memory)}"
    if fit.degree > 1 and devices.links == "PCIe":
        yield f"the {fit.degree} devices are connected by PCIe, not NVLink: requests take longer than with NVLink"
    if 1 < fit.degree < devices.count * devices.cores or (fit.degree == 1 < devices.count):
        yield f"{fit.degree} of {devices.count * devices.cores} devices are used"
    yield from _host(checkpoint, fit, devices)


def _host(checkpoint: Checkpoint, fit: Fit, devices: Devices) -> Iterator[str]:
    if devices.host_memory is None or devices.kind == "cpu":
        return
    # Each process reads a pickle completely before its part goes to the device; safetensors are mapped.
    largest = max(checkpoint.pickles, default=0)
    need = fit.degree * (_PROCESS + largest)
    if need > devices.host_memory:
        what = (
            "each process reads the largest pickle file completely" if largest else "one process per device"
        )
        yield (
            f"loading needs about {gib_text(need, 0)} of host memory ({what}),"
            f" but {devices.instance} has {gib_text(devices.host_memory, 0)}"
        )
    size = total_size_or_none(checkpoint)
    if size and devices.disk is not None and size > devices.disk:
        yield (
            f"the files need {gib_text(size, 0)}, but the local disks of {devices.instance} have "
            f"{gib_text(devices.disk, 0)}"
        )
