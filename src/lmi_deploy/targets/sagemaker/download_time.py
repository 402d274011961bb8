"""Whether the weights fit the instance, and arrive within the time-outs: arithmetic that is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lmi_deploy.catalog import sagemaker_limits
from lmi_deploy.catalog.instances import Instance, instance
from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.domain.recipe_keys import Recipe, Timeouts
from lmi_deploy.domain.sagemaker.resource_settings import Delivery
from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.default_timeouts import (
    CAREFUL,
    MOST,
    STARTUP_TIMEOUT,
    careful_start,
    download_seconds,
    startup_timeout,
    startup_with_download,
    whole_minutes,
)

DEFAULT_VOLUME_GB = 30
"""What SageMaker attaches if no volume size is given and the instance has no local disk."""
_HEADROOM = 1.1
_EXTRA_GB = 10
"""GB of a chosen volume beside the weights: temporary files, caches of compiled kernels, logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedTimeouts:
    """Seconds for each part of the arrival."""

    model_download: int
    startup: int


def volume_gb(machine: Instance, requested: int | None, size: int) -> int:
    """0 if the instance has local disks or the default is large enough; else the recipe's, else a computed size."""
    if machine.refuses_volume:
        _refuse_small_disk(machine, size)
        return 0
    needed = math.ceil(size / GIB * _HEADROOM) + _EXTRA_GB
    if requested is not None:
        if requested * GIB < size:
            raise Unresolvable(
                f"endpoint.volume_gb: {requested} GB are too small for {size_text(size)} of weights",
                hint=f"at least {needed}",
            )
        return requested
    most = sagemaker_limits.bounds("volume_gb")[1]
    if needed > most:
        raise Unresolvable(
            f"instance_type: {machine.name} has no disk of its own, and {size_text(size)} of weights need a volume of "
            f"{needed} GB; SageMaker attaches {most} GB at most",
            hint="use a type with local disks, such as ml.g5.48xlarge or ml.p4d.24xlarge",
        )
    return needed if needed > DEFAULT_VOLUME_GB else 0


def resolve_timeouts(
    recipe: Recipe, delivery: Delivery, machines: tuple[Instance, ...], size: int
) -> ResolvedTimeouts:
    """The recipe's time-outs if the weights can be downloaded within them, else what the slowest instance needs."""
    slowest = min(machines, key=lambda machine: machine.network_gbps or math.inf)
    timeouts = recipe.timeouts
    if delivery == "s3":
        _refuse_short("container_startup", timeouts.container_startup, slowest, size)
        return ResolvedTimeouts(
            model_download=timeouts.model_download or STARTUP_TIMEOUT,
            startup=startup_with_download(timeouts, slowest, size),
        )
    _refuse_short("model_download", timeouts.model_download, slowest, size)
    return ResolvedTimeouts(
        model_download=_download(timeouts, download_seconds(slowest, size)),
        startup=startup_timeout(timeouts, size),
    )


def _download(timeouts: Timeouts, careful: int) -> int:
    return timeouts.model_download or min(MOST, max(STARTUP_TIMEOUT, whole_minutes(careful)))


def _refuse_short(key: str, given: int | None, machine: Instance, size: int) -> None:
    """Refused only if it is impossible: the bytes do not arrive even at the network's whole baseline."""
    limit = given or MOST
    if not machine.network_gbps or size * 8 <= limit * machine.network_gbps * 1e9:
        return
    needed = math.ceil(size * 8 / (machine.network_gbps * 1e9))
    network = f"{machine.network_gbps:g} Gbit/s, the network of {machine.name}"
    arithmetic = f"{size_text(size)} of weights at {network}, take {needed} s"
    if needed > MOST:
        raise Unresolvable(
            f"instance_type: {arithmetic}; SageMaker waits {MOST} s at most",
            hint="use a type with a faster network, or fewer files (`files:`)",
        )
    raise Unresolvable(
        f"timeouts.{key}: {arithmetic}, but the limit is {limit} s",
        hint=f"at least {min(MOST, whole_minutes(needed / CAREFUL))}, or omit it",
    )


def late_start(place: SageMakerPlace, size: int) -> str:
    """That a start may be longer than the container's time-outs: reckoned carefully, so that it is a warning."""
    names = {name for placement in place.placements for name in placement.types}
    machines = sorted(filter(None, map(instance, names)), key=lambda one: one.network_gbps or math.inf)
    if not machines:
        return ""
    slowest = machines[0]
    download, start = download_seconds(slowest, size), math.ceil(careful_start(slowest, size))
    parts = [("container_startup", "download and load", start, place.startup_timeout)]
    if place.delivery != "s3":
        parts = [
            ("model_download", "download", download, place.model_download),
            ("container_startup", "load", start - download, place.startup_timeout),
        ]
    for key, what, needed, limit in parts:
        if needed > limit:
            longer = f"raise timeouts.{key}, or " if limit < MOST else ""
            return (
                f"{slowest.name} may take {needed:,} s to {what} {size_text(size)} (half of its network, 100 MB/s into "
                f"its devices), and SageMaker ends the start after {limit:,} s: {longer}use a type with a faster "
                "network, a quantized model, or fewer files (`files:`)"
            )
    return ""


def _refuse_small_disk(machine: Instance, size: int) -> None:
    if machine.nvme and size > machine.nvme:
        raise Unresolvable(
            f"instance_type: the disks of {machine.name} hold {size_text(machine.nvme)},"
            f" the weights are {size_text(size)}",
            hint="use a larger type of the family, or fewer files (`files:`)",
        )
