"""How a worker's process is started: command line, environment, and its listening sockets."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.server.models.serving_properties import ServingProperties
from lmi_deploy.server.workers.devices import DevicePlacement, visible

FIRST_NUMBER = 19000
WORKER_ENTRY = Path(__file__).parent / "djl_engine_entry.py"
MASTER = "127.0.0.1"
SECRET_NAMES = re.compile(
    r"^(HF_TOKEN|HUGGING_?FACE_(HUB_)?TOKEN|AWS_(SECRET_ACCESS_KEY|SESSION_TOKEN|ACCESS_KEY_ID))$"
)
_MPI_EXPORTS = (
    "FI_PROVIDER=efa",
    "RDMAV_FORK_SAFE=1",
    "FI_EFA_USE_DEVICE_RDMA=1",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
)


@dataclass(frozen=True, slots=True)
class Engine:
    """How workers are started, and the folder of their sockets. `tcp`: they listen on ports, open to the network."""

    folder: Path
    python: Path
    run_dir: Path
    environ: Mapping[str, str]
    largest_blob: int
    numbers: itertools.count[int]
    tcp: bool = False
    log_level: str = "info"


@dataclass(frozen=True, slots=True)
class Command:
    """The start of one worker. `ranks`: its processes, each on its own socket; 1 without MPI."""

    engine: Engine
    settings: ServingProperties
    place: DevicePlacement
    number: int

    @property
    def ranks(self) -> int:
        return self.place.span * self.settings.pipeline_parallel_degree if self.settings.mpi else 1

    @property
    def sockets(self) -> list[Path]:
        base = self._socket
        return [Path(f"{base}.{rank}") for rank in range(self.ranks)] if self.settings.mpi else [base]

    @property
    def addresses(self) -> Sequence[Path | int]:
        """The addresses of its processes: sockets, or a port of this machine."""
        return [self.number] if self._on_port else self.sockets

    def argv(self) -> list[str]:
        settings, span = self.settings, self.place.span
        python = settings.python or str(self.engine.python)
        engine = (python, str(WORKER_ENTRY), str(self.engine.folder / "djl_python_engine.py"))
        model = ("--model-dir", str(settings.folder), "--entry-point", settings.entry_point)
        where = ("--sock-type", "unix", "--sock-name", str(self._socket))
        if self._on_port:
            where = ("--sock-type", "tcp", "--port", str(self.number))
        tail = (
            *("--cluster-size", "1", "--recommended-entry-point", settings.recommended_entry_point),
            *("--log-level", self.engine.log_level),
            "--async-mode" if settings.async_mode else "--no-async-mode",
        )
        if settings.mpi:
            pipeline = str(settings.pipeline_parallel_degree)
            degrees = ("--tensor-parallel-degree", str(span), "--pipeline-parallel-degree", pipeline)
            return [*self._mpirun(), *engine, *model, *where, *degrees, *tail]
        device = "0" if span else str(self.place.device.number)
        return [*engine, *where, *model, "--device-id", device, *tail]

    def environment(self) -> dict[str, str]:
        """The server's own without the variables that lmi withholds, and with the engine on PYTHONPATH."""
        settings = self.settings
        passed = {key: value for key, value in self.engine.environ.items() if not SECRET_NAMES.match(key)}
        before = [passed["PYTHONPATH"]] if passed.get("PYTHONPATH") else []
        passed["PYTHONPATH"] = os.pathsep.join([*before, str(self.engine.folder), str(settings.folder)])
        # Without this a handler's print() would stay in a pipe's buffer until it is full.
        passed.setdefault("PYTHONUNBUFFERED", "1")
        passed |= settings.extra_environment
        if self.place.device.kind == "nc":
            passed["NEURON_RT_VISIBLE_CORES"] = str(self.place.device.number)
        elif self.place.span:
            passed["CUDA_VISIBLE_DEVICES"] = visible(self.place, self.engine.environ)
        return passed

    @property
    def _on_port(self) -> bool:
        return self.engine.tcp and not self.settings.mpi

    @property
    def _socket(self) -> Path:
        return self.engine.run_dir / f"djl_sock.{self.number}"

    def _mpirun(self) -> list[str]:
        lines = [f"CUDA_VISIBLE_DEVICES={visible(self.place, self.engine.environ)}", f"MASTER_ADDR={MASTER}"]
        exports = [*_MPI_EXPORTS, *lines, f"MASTER_PORT={self.number}", "MKL_DYNAMIC=FALSE"]
        return [
            *("mpirun", "-np", str(self.ranks), "--allow-run-as-root", "--bind-to", "none"),
            *("--mca", "btl_vader_single_copy_mechanism", "none", "--tag-output"),
            *(word for export in exports for word in ("-x", export)),
        ]
