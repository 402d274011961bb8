"""The worker's engine is 0.34, the image's 0.36: handlers see the behaviour of 0.36."""

from __future__ import annotations

import os
import signal
import struct
import time
from pathlib import Path

import pytest

from tests.support.running_server import RunningServer, serving, write_model

pytestmark = pytest.mark.worker

LOADED = """
import multiprocessing, pickle, sys
from djl_python import Output

print("LOADED AS", __name__)

class Thing:
    pass

def handle(inputs):
    if inputs.is_empty():
        return None
    return Output().add(str(len(pickle.dumps(Thing()))))
"""
PID = """
import os
from djl_python import Output

def handle(inputs):
    return None if inputs.is_empty() else Output().add(str(os.getpid()))
"""
TENSORS = """
from djl_python import Output

def handle(inputs):
    if inputs.is_empty():
        return None
    (first, second) = inputs.get_as_numpy()
    return Output().add_as_numpy([first + 1, second.T])
"""
NO_RETRY = "engine=Python\nminWorkers={0}\nmaxWorkers={0}\n"


def test_model_py_is_loaded_three_times_under_its_own_module_name(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", LOADED)) as served:
        assert served.text.count("LOADED AS model_") == 3


def test_class_defined_in_model_py_cannot_be_pickled(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", LOADED)) as served:
        status, body = served.post({})
    assert status == 424
    assert b"it's not the same object as model_" in body


def test_handler_file_in_a_subfolder_is_found(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", PID, "engine=Python\noption.entryPoint=code/handler.py\n")
    (folder / "code").mkdir()
    (folder / "model.py").rename(folder / "code" / "handler.py")
    with serving(folder) as served:
        assert served.post({})[0] == 200


def nd_list(*arrays: tuple[str, str, tuple[int, ...], bytes]) -> bytes:
    """DJL's wire form of tensors (name of the type, order of the bytes, shape, data), which is not numpy's."""
    packed = struct.pack(">i", len(arrays))
    for kind, order, shape, data in arrays:
        text = [struct.pack(">h", len(word)) + word.encode() for word in ("NDAR", "default", kind)]
        packed += text[0] + struct.pack(">ib", 3, 0) + text[1] + text[2]
        packed += struct.pack(f">i{len(shape)}q", len(shape), *shape)
        packed += struct.pack(f">i{len(shape)}h", len(shape), *b"?" * len(shape))
        packed += order.encode() + struct.pack(">i", len(data)) + data
    return packed


def test_tensors_are_read_and_written_as_nd_lists(tmp_path: Path) -> None:
    numbers = struct.pack(">2f", 1.5, -2), struct.pack("<4i", 1, 2, 3, 4)
    with serving(write_model(tmp_path / "m", TENSORS)) as served:
        connection = served.connect()
        body = nd_list(("FLOAT32", ">", (2,), numbers[0]), ("INT32", "<", (2, 2), numbers[1]))
        connection.request("POST", "/invocations", body, {"Content-Type": "tensor/ndlist"})
        response = connection.getresponse()
        results = struct.pack("<2f", 2.5, -1), struct.pack("<4i", 1, 3, 2, 4)
        assert (response.status, response.read()) == (
            200,
            nd_list(("FLOAT32", "<", (2,), results[0]), ("INT32", "<", (2, 2), results[1])),
        )


def end_worker(served: RunningServer, pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}/stat").exists() and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize("retries", ["", "retry_threshold=3\n"])
def test_worker_that_dies_idle_is_not_replaced_and_ping_stays_healthy(tmp_path: Path, retries: str) -> None:
    with serving(write_model(tmp_path / "m", PID, NO_RETRY.format(1) + retries)) as served:
        end_worker(served, int(served.post({})[1]))
        responses = [served.post({}) for _ in range(3)]
        assert {status for status, _ in responses} == {400}
        assert b"Backend Python process is stopped." in responses[0][1]
        status, ping = served.get("/ping")
        assert (status, b"Healthy" in ping) == (200, True)
        assert "the worker died between two requests" in served.text


def test_second_worker_still_serves_when_an_idle_one_died(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", PID, NO_RETRY.format(2))) as served:
        end_worker(served, int(served.post({})[1]))
        assert {served.post({})[0] for _ in range(8)} == {200, 400}
