"""Workers on simulated GPUs: the driver's tool and mpirun are stand-ins, engine and handlers are real."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.running_server import RunningServer, launched, serving, write_model

pytestmark = pytest.mark.worker

HANDLER = """
import json, os
from djl_python import Output

def handle(inputs):
    if inputs.is_empty():
        with open("rank%s" % os.environ.get("RANK", ""), "w") as seen:
            json.dump({k: str(v) for k, v in inputs.get_properties().items()}, seen)
        return None
    told = {key: os.environ.get(key) for key in ("CUDA_VISIBLE_DEVICES", "RANK", "WORLD_SIZE", "MASTER_PORT")}
    return Output().add_as_json(told | {"device_id": inputs.get_property("device_id")})
"""
MPIRUN = """
import os, subprocess, sys
words, exports, count = sys.argv[1:], {}, 0
while words[0].startswith("-"):
    word = words.pop(0)
    if word in ("--allow-run-as-root", "--tag-output"):
        continue
    value = words.pop(0)
    if word == "-np":
        count = int(value)
    elif word == "-x" and "=" in value:
        exports.update([value.split("=", 1)])
    elif word == "--mca":
        words.pop(0)
ranks = [
    subprocess.Popen(words, env={**os.environ, **exports, "OMPI_COMM_WORLD_SIZE": str(count),
                                 "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_RANK": str(rank)})
    for rank in range(count)
]
sys.exit(max(rank.wait() for rank in ranks))
"""


def with_gpus(folder: Path, count: int) -> dict[str, str]:
    """An environment in which the driver's tool lists that many devices, and mpirun starts processes."""
    folder.mkdir()
    printed = "\\n".join(map(str, range(count)))
    for name, text in (("nvidia-smi", f"print('{printed}')"), ("mpirun", MPIRUN)):
        (folder / name).write_text(f"#!{sys.executable}\n{text}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def groups(served: RunningServer) -> list[dict[str, Any]]:
    [described] = json.loads(served.get("/models/m")[1])
    found: list[dict[str, Any]] = described["models"][0]["workerGroups"]
    return found


def test_every_device_has_its_own_workers(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", HANDLER, "engine=Python\n")
    with serving(folder, environ=with_gpus(tmp_path / "bin", 2)) as served:
        found = groups(served)
        assert [group["device"] for group in found] == [
            {"deviceType": "gpu", "deviceId": 0},
            {"deviceType": "gpu", "deviceId": 1},
        ]
        assert [(group["minWorkers"], len(group["workers"])) for group in found] == [(1, 1), (1, 1)]
        assert json.loads(served.post({})[1])["device_id"] in ("0", "1")


def test_tensor_parallel_model_sees_only_its_own_devices(tmp_path: Path) -> None:
    text = "engine=Python\noption.tensor_parallel_degree=2\nload_on_devices=2\n"
    folder = write_model(tmp_path / "m", HANDLER, text)
    with serving(folder, environ=with_gpus(tmp_path / "bin", 4)) as served:
        result = json.loads(served.post({})[1])
    assert (result["CUDA_VISIBLE_DEVICES"], result["device_id"]) == ("2,3", "0")


def test_mpi_initialises_every_process_and_invokes_rank_zero(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", HANDLER, "engine=MPI\noption.tensor_parallel_degree=2\n")
    with serving(folder, environ=with_gpus(tmp_path / "bin", 2)) as served:
        results = [json.loads(served.post({})[1]) for _ in range(3)]
        pids = [worker["pid"] for worker in served.send_request({"do": "status"})["workers"]]
        assert len(pids) == 1
    assert {one["RANK"] for one in results} == {"0"}
    assert (results[0]["WORLD_SIZE"], results[0]["CUDA_VISIBLE_DEVICES"]) == ("2", "0,1")
    for rank in (0, 1):
        observed = json.loads((folder / f"rank{rank}").read_text())
        assert (observed["mpi_mode"], observed["tensor_parallel_degree"]) == ("true", "2")


def test_too_few_devices_end_the_start(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", HANDLER, "engine=Python\noption.tensor_parallel_degree=4\n")
    with launched(folder, environ=with_gpus(tmp_path / "bin", 2)) as served:
        assert served.wait() == 1
        assert "not enough to run 4 partitions" in served.failure()["message"]
