"""Bursts, batches, streams and shutdown under load: as recorded from the real server."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.server.handlers import BATCHED, MANY_WAYS
from tests.support.running_server import TIMEOUT, RunningServer, serving, write_model

pytestmark = pytest.mark.worker


def request_and_disconnect(served: RunningServer, body: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as line:
        line.sendall(b"POST /invocations HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        time.sleep(0.3)


def workers(served: RunningServer) -> int:
    described = json.loads(served.get("/models/m")[1])
    return len(described[0]["models"][0]["workerGroups"][0]["workers"])


def test_burst_starts_workers_above_the_threshold(tmp_path: Path) -> None:
    """Six at once: one is served, five wait, the third to the fifth of them each start a worker."""
    properties = "engine=Python\nminWorkers=1\nmaxWorkers=6\nretry_threshold=9\n"
    with serving(write_model(tmp_path / "m", MANY_WAYS, properties)) as served:
        requests = [
            threading.Thread(target=served.post, args=({"do": "sleep", "seconds": 4},)) for _ in range(6)
        ]
        for thread in requests:
            thread.start()
            time.sleep(0.1)  # the first one is being served before the others arrive
        deadline = time.monotonic() + TIMEOUT
        while workers(served) < 4 and time.monotonic() < deadline:
            time.sleep(0.1)
        for thread in requests:
            thread.join()
        assert workers(served) == 4


def test_disconnected_client_is_left_out_of_its_batch(tmp_path: Path) -> None:
    properties = "engine=Python\nminWorkers=1\nmaxWorkers=1\nbatch_size=2\nmax_batch_delay=2000\n"
    with serving(write_model(tmp_path / "m", BATCHED, properties)) as served:
        request_and_disconnect(served, b"gone")
        assert served.post("here")[1] == b'"here" of 1'


def test_handler_errors_count_as_server_errors(tmp_path: Path) -> None:
    config = tmp_path / "config.properties"
    config.write_text("error_rate_server=1/PT1M\n")
    with serving(write_model(tmp_path / "m", MANY_WAYS), "--config", str(config)) as served:
        assert [served.post({"do": "fail"})[0] for _ in range(2)] == [424, 424]
        assert served.get("/ping")[0] == 503


def test_shutdown_does_not_wait_for_disconnected_clients(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", MANY_WAYS), "--drain-seconds", "60") as served:
        request_and_disconnect(served, b'{"do": "sleep", "seconds": 50}')
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(TIMEOUT)
        assert "in_flight=1" in served.text


@pytest.mark.parametrize(("delay", "warned"), [(0, True), (0.02, False)])
def test_fast_stream_that_would_block_djl_gives_a_warning(tmp_path: Path, delay: float, warned: bool) -> None:
    with serving(write_model(tmp_path / "m", MANY_WAYS)) as served:
        connection: http.client.HTTPConnection = served.connect()
        body = json.dumps({"do": "stream", "count": 40, "delay": delay})
        connection.request("POST", "/invocations", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        assert ("without a pause" in served.text) is warned
