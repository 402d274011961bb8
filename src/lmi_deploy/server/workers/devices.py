"""On which devices a model's workers run, and how many on each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lmi_deploy.server.models.property_values import InvalidSettings, integer, number, parse_bool

_TIMEOUT = 10.0
_NAMED = re.compile(r"(gpu|nc)?(\d+)")


@dataclass(frozen=True, slots=True)
class Device:
    """A device as a handler and GET /models/NAME see it."""

    kind: str = "cpu"
    number: int = -1

    def __str__(self) -> str:
        """As DJLServing's log has it."""
        return "cpu()" if self.kind == "cpu" else f"{self.kind}({self.number})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlacement:
    """A device with the bounds for its workers. `span`: how many devices one worker has from this on; 0: not split."""

    device: Device
    low: int
    high: int
    span: int = 0


def detect_gpus(environ: Mapping[str, str]) -> int:
    """NVIDIA devices that a process with this environment can see. Runs nvidia-smi; blocking."""
    tool = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if tool is None:
        return 0
    requests = [tool, "--query-gpu=index", "--format=csv,noheader"]
    try:
        observed = subprocess.run(
            requests, capture_output=True, text=True, timeout=_TIMEOUT, env=dict(environ), check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    shown = _visible_devices(environ)
    found = len(observed.stdout.split())
    return found if shown is None else min(found, len(shown))


def visible(place: DevicePlacement, environ: Mapping[str, str]) -> str:
    """CUDA_VISIBLE_DEVICES of a worker that is split over several devices, in the names the server itself was given."""
    required = range(place.device.number, place.device.number + place.span)
    shown = _visible_devices(environ)
    return ",".join(str(one) if shown is None else shown[one] for one in required)


def placed(
    merged: Mapping[str, str],
    defaults: Mapping[str, str],
    environ: Mapping[str, str],
    gpus: int,
    *,
    one_engine: bool = False,
) -> tuple[DevicePlacement, ...]:
    """`InvalidSettings` if there are not enough devices, because the real server then does not start.

    `one_engine`: a worker is a whole inference engine, so a processor has no more of them than a GPU unless stated.
    """
    split = merged.get("option.tensor_parallel_degree", "0")
    degree = gpus if split == "max" else integer("option.tensor_parallel_degree", split)
    if mpi(merged):
        return _under_mpi(merged, degree, gpus)
    stated = merged.get("load_on_devices", defaults.get("load_on_devices", "*"))
    if stated != "*":
        devices = [_named(name) for name in stated.split(";") if name]
    elif gpus and gpus < degree:
        raise InvalidSettings(f"GPU devices are not enough to run {degree} partitions.")
    else:
        step = max(degree, 1)
        devices = [Device("gpu", first) for first in range(0, gpus - step + 1, step)]
    usual = 1 if one_engine else _cpu_workers(environ)
    # A device that is named twice is one group of workers.
    return tuple(_place(device, merged, usual, degree) for device in dict.fromkeys(devices) or [Device()])


def mpi(merged: Mapping[str, str]) -> bool:
    return merged.get("engine") == "MPI" or parse_bool(merged.get("option.mpi_mode", ""))


def _visible_devices(environ: Mapping[str, str]) -> list[str] | None:
    stated = environ.get("CUDA_VISIBLE_DEVICES")
    return None if stated is None else [name.strip() for name in stated.split(",") if name.strip()]


def _named(name: str) -> Device:
    name = name.strip().lower()
    if name in ("-1", "cpu"):
        return Device()
    found = _NAMED.fullmatch(name)
    if found is None:
        raise InvalidSettings(f"load_on_devices: {name}: write a number, gpuN, ncN, cpu or -1")
    return Device(found[1] or "gpu", int(found[2]))


def _place(device: Device, merged: Mapping[str, str], usual: int, degree: int) -> DevicePlacement:
    """`usual`: how many workers a processor has by default."""
    # The real server ignores minWorkers and maxWorkers of config.properties: only the model's own count.
    sources = (merged,)
    usual = usual if device.kind == "cpu" else 1
    low = number(sources, f"{device.kind}.minWorkers", number(sources, "minWorkers", 1))
    high = number(sources, f"{device.kind}.maxWorkers", number(sources, "maxWorkers", usual))
    if device.kind == "gpu" and degree and not {"maxWorkers", "gpu.maxWorkers"} & merged.keys():
        low = high = 1
    span = degree if device.kind == "gpu" else 0
    return DevicePlacement(device=device, low=min(low, high), high=high, span=span)


def _under_mpi(merged: Mapping[str, str], degree: int, gpus: int) -> tuple[DevicePlacement, ...]:
    degree = degree or gpus
    if not gpus or gpus < degree:
        raise InvalidSettings(
            f"engine=MPI: GPU devices are not enough to run {degree} partitions: this machine has {gpus}. "
            "It runs one process per GPU under mpirun; engine=Python needs no GPU"
        )
    most = gpus // degree
    needed = number([merged], "gpu.maxWorkers", number([merged], "maxWorkers", most))
    if needed > most:
        raise InvalidSettings(f"We can only expand worker to {most} but the value is set to {needed}")
    firsts: Sequence[int] = range(0, needed * degree, degree)
    return tuple(DevicePlacement(device=Device("gpu", one), low=1, high=1, span=degree) for one in firsts)


def _cpu_workers(environ: Mapping[str, str]) -> int:
    threads = environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > 0:
        return max(1, (os.cpu_count() or 1) // int(threads))
    return 2
