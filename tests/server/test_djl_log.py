"""`--log-format djl`: the lines that people filter in the log group of an endpoint.

The patterns are lines of a real DJLServing 0.36, in the format of its log4j2-plain.xml on SageMaker.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.recording import free_port
from tests.support.running_server import TIMEOUT, RunningServer, launched, serving, worker_python, write_model

pytestmark = pytest.mark.worker

HANDLER = """
import os, sys
from djl_python import Output
print("loading the weights", flush=True)
print("a warning of a library", file=sys.stderr, flush=True)
print("[METRICS]Loss.Count:1|#Model:m", flush=True)

def handle(inputs):
    if inputs.is_empty():
        return None
    if inputs.get_as_json().get("do") == "exit":
        os._exit(5)
    return Output().add("hi")
"""
DISCONNECTED = "java.util.concurrent.ExecutionException: java.io.IOException: Python worker disconnected."
STARTED = (
    r"[INFO ] ModelStore - Found model m=file:FOLDER/",
    r"[INFO ] ModelStore - Initializing model: m=file:FOLDER/",
    r"[INFO ] PyProcess - Start process: 19000 - retry: 0",
    r"[INFO ] PyProcess - W-PID-m-stdout: loading the weights",
    r"[INFO ] PyProcess - W-PID-m-stdout: INFO::Python engine started.",
    r"[INFO ] PyProcess - Model [m] initialized.",
    r"[INFO ] WorkerThread - Starting worker thread WT-0001 for model m (M-0001, READY) on device cpu()",
    r"[INFO ] ModelServer - Initialize BOTH server with: EpollServerSocketChannel.",
    r"[INFO ] ModelServer - BOTH API bind to: http://127.0.0.1:PORT",
)
LOST = (
    "[ERROR] PyProcess - predict[init=false] exception: java.util.concurrent.ExecutionException",
    "[INFO ] PyProcess - Stop process: -1:PID, failure=true",
    "[INFO ] PyProcess - Failure count: 0",
    "[INFO ] PyProcess - Restart python process ...",
    "[ERROR] WorkerThread - WT-0001: Server error",
    f"ai.djl.engine.EngineException: {DISCONNECTED}",
    f"Caused by: {DISCONNECTED}",
    "[INFO ] WorkerThread - Shutting down temporary worker WT-0001",
)
REFUSED = (
    f"[WARN ] InferenceRequestHandler - RequestId=[ID]: {DISCONNECTED}",
    f"ai.djl.serving.wlm.util.WlmException: {DISCONNECTED}",
    "[WARN ] InferenceRequestHandler - RequestId=[ID]: Model is not ready: m",
    "ai.djl.serving.wlm.util.WlmException: Model is not ready: m",
)
FAILED = (
    "[ERROR] ModelServer - Failed register workflow",
    "java.util.concurrent.CompletionException: ai.djl.engine.EngineException: Failed to initialize model: "
    "invoke handler failure",
)


def lines_of(served: RunningServer, folder: Path, port: int) -> list[str]:
    """With the values that differ from run to run masked."""
    text = served.text.replace(str(folder), "FOLDER").replace(f":{port}\n", ":PORT\n")
    text = re.sub(r"\[[0-9a-f]{8}-[0-9a-f-]{27}\]", "[ID]", re.sub(r"(W-|-1:)\d+", r"\1PID", text))
    return text.splitlines()


def in_order(expected: tuple[str, ...], lines: list[str]) -> None:
    rest = iter(lines)
    missing = [line for line in expected if line not in rest]
    assert not missing, "\n".join([*missing, "is not in", *lines])


def test_server_lifecycle_and_worker_crash_are_logged_like_djl(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", HANDLER)
    with serving(folder, "--log-format", "djl") as served:
        port = served.port
        assert served.post({"do": "exit"})[0] == 503
        assert served.post({})[0] == 503
        served.send_request({"do": "stop"})
        served.wait()
        lines = lines_of(served, folder, port)
    in_order(STARTED, lines)
    in_order(LOST, lines)
    in_order(REFUSED, lines)
    in_order(("[WARN ] PyProcess - W-PID-m-stderr: a warning of a library",), lines)
    in_order(("[INFO ] ModelServer - Stopping model server.",), lines)
    assert not any("[METRICS]" in line for line in lines)
    # Our own additional lines have the same format, with the logger `lmi`.
    assert any(line.startswith("[ERROR] lmi - the model is FAILED, as on SageMaker") for line in lines)


def test_model_load_error_is_logged_like_djl(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", "def handle(inputs):\n    raise ValueError('no')")
    with launched(folder, "--log-format", "djl") as served:
        assert served.wait() == 1
        lines = lines_of(served, folder, 0)
    in_order(FAILED, lines)
    in_order(("[INFO ] PyProcess - W-PID-m-stdout: ERROR::Failed invoke service.invoke_handler()",), lines)


def test_lmi_serve_has_the_log_format_option(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", HANDLER)
    port = free_port()
    argv = [
        *(sys.executable, "-c", "import sys; from lmi_deploy.cli import main; sys.exit(main())"),
        *("serve", str(folder), "--port", str(port), "--python", worker_python(), "--log-format", "djl"),
    ]
    log = tmp_path / "log"
    with log.open("wb") as sink:
        running = subprocess.Popen(argv, stdout=sink, stderr=sink)
    try:
        deadline = time.monotonic() + TIMEOUT
        bound = f"[INFO ] ModelServer - BOTH API bind to: http://127.0.0.1:{port}\n"
        while bound not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
    finally:
        running.terminate()
        running.wait()
