"""Time-outs that the recipe does not set."""

from __future__ import annotations

import math

from lmi_deploy.catalog.instances import Instance
from lmi_deploy.domain.recipe_keys import Timeouts

STARTUP_TIMEOUT = 600
"""Seconds, if the recipe sets none: the LMI deployment guide's own figure for the health check."""
MOST = 3600
"""Seconds that SageMaker allows, for a download as for a start."""
_LOADED_PER_SECOND = 100_000_000
"""Bytes: a careful figure for reading weights from a disk into devices."""
_STARTUP_OVERHEAD = 120
"""Seconds for the server and its engine to start."""
CAREFUL = 0.5
"""Share of the network's baseline that a time-out is reckoned with."""
_DISK = 1_000_000_000
_VOLUME = 250_000_000
"""Maximum bytes a second of a local disk, and of an EBS volume (gp2)."""
_NEGLIGIBLE = 60
"""Seconds of a download that the time to start has room for."""


def loading_timeout(timeouts: Timeouts, size: int) -> int:
    """Seconds to load `size` bytes of weights, the same for all targets, because it is written in the artifact."""
    return timeouts.model_loading or timeouts.container_startup or _careful(size)


def startup_timeout(timeouts: Timeouts, size: int, *, download: int = 0) -> int:
    """Seconds from the server's start to its first healthy response; includes loading, and the download if any."""
    if timeouts.container_startup is not None:
        return timeouts.container_startup
    return min(MOST, whole_minutes(max(_careful(size), loading_timeout(timeouts, size)) + download))


def download_seconds(machine: Instance, size: int) -> int:
    """A conservative estimate: half of the network's baseline, and no more than the disk's rate."""
    disk = _DISK if machine.refuses_volume else _VOLUME
    network = machine.network_gbps * 1e9 / 8 * CAREFUL if machine.network_gbps else disk
    return math.ceil(size / min(disk, network))


def careful_start(machine: Instance | None, size: int) -> float:
    """Seconds from an instance's start until it serves: a conservative estimate, without any limit."""
    download = download_seconds(machine, size) if machine else 0
    return download + _loading(size)


def startup_with_download(timeouts: Timeouts, machine: Instance, size: int) -> int:
    """The time to start where the server itself downloads the weights."""
    careful = download_seconds(machine, size)
    return startup_timeout(timeouts, size, download=careful if careful > _NEGLIGIBLE else 0)


def whole_minutes(seconds: float) -> int:
    return math.ceil(seconds / 60) * 60


def _careful(size: int) -> int:
    return min(MOST, max(STARTUP_TIMEOUT, whole_minutes(_loading(size))))


def _loading(size: int) -> float:
    return size / _LOADED_PER_SECOND + _STARTUP_OVERHEAD
