"""The devices of a model's workers, and the command lines of their processes."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import pytest

from lmi_deploy.server.models.property_values import InvalidSettings
from lmi_deploy.server.models.serving_properties import ServerDefaults, ServingProperties, resolve
from lmi_deploy.server.workers.devices import detect_gpus
from lmi_deploy.server.workers.worker_command import WORKER_ENTRY, Command, Engine


def settings(
    folder: Path, text: str, *, gpus: int = 0, environ: dict[str, str] | None = None
) -> ServingProperties:
    (folder / "model.py").touch()
    (folder / "serving.properties").write_text(text)
    return resolve(folder, name="m", around=ServerDefaults(defaults={}, environ=environ or {}, gpus=gpus))


def shown(found: ServingProperties) -> list[tuple[str, int, int, int]]:
    return [(place.device.kind, place.device.number, place.low, place.high) for place in found.places]


@pytest.mark.parametrize(
    ("text", "gpus", "places"),
    [
        ("", 0, [("cpu", -1, 1, 2)]),
        ("", 2, [("gpu", 0, 1, 1), ("gpu", 1, 1, 1)]),
        ("minWorkers=2\nmaxWorkers=3\n", 2, [("gpu", 0, 2, 3), ("gpu", 1, 2, 3)]),
        ("gpu.maxWorkers=4\nmaxWorkers=9\ncpu.maxWorkers=7\n", 1, [("gpu", 0, 1, 4)]),
        ("gpu.maxWorkers=4\ncpu.maxWorkers=7\n", 0, [("cpu", -1, 1, 7)]),
        ("load_on_devices=1;3\n", 4, [("gpu", 1, 1, 1), ("gpu", 3, 1, 1)]),
        ("load_on_devices=cpu;gpu0\n", 4, [("cpu", -1, 1, 2), ("gpu", 0, 1, 1)]),
        ("load_on_devices=-1\n", 4, [("cpu", -1, 1, 2)]),
        ("load_on_devices=nc2\n", 0, [("nc", 2, 1, 1)]),
        ("option.tensor_parallel_degree=2\n", 5, [("gpu", 0, 1, 1), ("gpu", 2, 1, 1)]),
        ("option.tensor_parallel_degree=max\nminWorkers=3\n", 4, [("gpu", 0, 1, 1)]),
        ("option.tensor_parallel_degree=2\nmaxWorkers=3\n", 2, [("gpu", 0, 1, 3)]),
        ("option.tensor_parallel_degree=2\n", 0, [("cpu", -1, 1, 2)]),
        ("engine=MPI\noption.tensor_parallel_degree=2\n", 4, [("gpu", 0, 1, 1), ("gpu", 2, 1, 1)]),
        ("engine=MPI\nmaxWorkers=1\noption.tensor_parallel_degree=1\n", 4, [("gpu", 0, 1, 1)]),
    ],
)
def test_workers_are_placed_on_devices(
    tmp_path: Path, text: str, gpus: int, places: list[tuple[str, int, int, int]]
) -> None:
    assert shown(settings(tmp_path, text, gpus=gpus)) == places


VLLM = "option.entryPoint=djl_python.lmi_vllm.vllm_async_service\noption.async_mode=true\noption.model_id=x\n"


@pytest.mark.parametrize(
    ("text", "gpus", "places"),
    [
        (VLLM, 0, [("cpu", -1, 1, 1)]),
        (VLLM, 2, [("gpu", 0, 1, 1), ("gpu", 1, 1, 1)]),
        (VLLM + "maxWorkers=3\n", 0, [("cpu", -1, 1, 3)]),
        (VLLM + "cpu.maxWorkers=3\n", 0, [("cpu", -1, 1, 3)]),
        (VLLM + "minWorkers=2\n", 0, [("cpu", -1, 2, 2)]),
        ("option.async_mode=true\n", 0, [("cpu", -1, 1, 2)]),
    ],
)
def test_engine_worker_runs_alone_unless_more_are_configured(
    tmp_path: Path, text: str, gpus: int, places: list[tuple[str, int, int, int]]
) -> None:
    assert shown(settings(tmp_path, text, gpus=gpus)) == places


@pytest.mark.parametrize(
    ("text", "gpus", "why"),
    [
        ("option.tensor_parallel_degree=4\n", 2, "not enough to run 4 partitions"),
        ("engine=MPI\n", 0, "mpirun"),
        (
            "engine=MPI\noption.tensor_parallel_degree=2\nmaxWorkers=3\n",
            4,
            "only expand worker to 2 but .* 3",
        ),
        ("load_on_devices=everywhere\n", 1, "everywhere"),
    ],
)
def test_unsatisfiable_devices_are_refused(tmp_path: Path, text: str, gpus: int, why: str) -> None:
    with pytest.raises(InvalidSettings, match=why):
        settings(tmp_path, text, gpus=gpus)


def command(
    folder: Path, text: str, *, gpus: int = 0, environ: dict[str, str] | None = None, tcp: bool = False
) -> Command:
    """The last worker's, which is the one furthest from device 0."""
    found = settings(folder, text, gpus=gpus, environ=environ)
    engine = Engine(
        folder=Path("/engine"), python=Path("/python"), run_dir=Path("/run"), environ=environ or {},
        largest_blob=1, numbers=itertools.count(), tcp=tcp,
    )  # fmt: skip
    return Command(engine, found, found.places[-1], 19007)


def test_cpu_command_with_a_tcp_port(tmp_path: Path) -> None:
    argv = command(tmp_path, "", tcp=True).argv()
    assert argv == [
        "/python", str(WORKER_ENTRY), "/engine/djl_python_engine.py", "--sock-type", "tcp", "--port", "19007",
        "--model-dir", str(tmp_path), "--entry-point", "model.py", "--device-id", "-1", "--cluster-size", "1",
        "--recommended-entry-point", "", "--log-level", "info", "--no-async-mode",
    ]  # fmt: skip


def test_worker_on_one_device_gets_its_number(tmp_path: Path) -> None:
    found = command(tmp_path, "", gpus=3)
    assert found.argv()[found.argv().index("--device-id") + 1] == "2"
    assert "CUDA_VISIBLE_DEVICES" not in found.environment()


@pytest.mark.parametrize(("stated", "observed"), [(None, "2,3"), ("4,1,7,5", "7,5")])
def test_worker_on_several_devices_sees_only_those(tmp_path: Path, stated: str | None, observed: str) -> None:
    environ = {} if stated is None else {"CUDA_VISIBLE_DEVICES": stated}
    found = command(tmp_path, "option.tensor_parallel_degree=2\n", gpus=4, environ=environ)
    assert found.argv()[found.argv().index("--device-id") + 1] == "0"
    assert found.environment()["CUDA_VISIBLE_DEVICES"] == observed


def test_worker_on_neuron_cores_sees_only_those(tmp_path: Path) -> None:
    found = command(tmp_path, "load_on_devices=nc2\n")
    assert found.environment()["NEURON_RT_VISIBLE_CORES"] == "2"


def test_mpi_starts_one_process_per_device(tmp_path: Path) -> None:
    text = "engine=MPI\noption.tensor_parallel_degree=2\n"
    found = command(tmp_path, text, gpus=4)
    argv = " ".join(found.argv())
    assert argv.startswith("mpirun -np 2 --allow-run-as-root --bind-to none ")
    assert "-x PYTHONPATH -x CUDA_VISIBLE_DEVICES=2,3 -x MASTER_ADDR=127.0.0.1 -x MASTER_PORT=19007 " in argv
    assert "--tensor-parallel-degree 2 --pipeline-parallel-degree 1" in argv
    assert [path.name for path in found.sockets] == ["djl_sock.19007.0", "djl_sock.19007.1"]
    assert settings(tmp_path, text, gpus=4).initialise["mpi_mode"] == "true"


def test_worker_environment_has_no_credentials(tmp_path: Path) -> None:
    environ = {
        "HF_TOKEN": "t",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_REGION": "eu-west-1",
        "PYTHONPATH": "/before",
    }
    assert command(tmp_path, "option.env=X=1\n", environ=environ).environment() == {
        "AWS_REGION": "eu-west-1",
        "PYTHONPATH": os.pathsep.join(["/before", "/engine", str(tmp_path)]),
        "PYTHONUNBUFFERED": "1",
        "X": "1",
    }


@pytest.mark.parametrize(("stated", "count"), [(None, 3), ("1", 1), ("", 0), ("0,1,2,3,4", 3)])
def test_devices_are_counted_as_visible_to_a_process(tmp_path: Path, stated: str | None, count: int) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!{sys.executable}\nprint('0\\n1\\n2')\n")
    tool.chmod(0o755)
    environ = {"PATH": str(tmp_path)} | ({} if stated is None else {"CUDA_VISIBLE_DEVICES": stated})
    assert detect_gpus(environ) == count
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert detect_gpus(environ) == 0
    assert detect_gpus({"PATH": "/nowhere"}) == 0
