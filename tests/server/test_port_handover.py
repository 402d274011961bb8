"""A port passes from one server to the next under load; shutdown interrupts no request."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest

from tests.server.handlers import MANY_WAYS
from tests.support.running_server import TIMEOUT, RunningServer, serving, write_model

pytestmark = pytest.mark.worker


class Clients:
    """Threads that send requests without pause, some on kept connections, some on new ones; every fault is
    recorded."""

    def __init__(self, port: int, count: int) -> None:
        self.responses: list[str] = []
        self.faults: list[str] = []
        self._port = port
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._invoke, args=(bool(n % 2),)) for n in range(count)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _invoke(self, keep: bool) -> None:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
        while not self._end.is_set():
            try:
                connection.request("POST", "/invocations", json.dumps({"do": "echo", "text": "x"}))
                self.responses.append(connection.getresponse().read().decode())
            except OSError as exc:
                self.faults.append(repr(exc))
            if not keep:
                connection.close()
        connection.close()


def versioned(folder: Path, version: str) -> Path:
    handler = MANY_WAYS.replace('asked["text"]', f'asked["text"] + "-{version}"')
    return write_model(folder, handler)


def test_takeover_under_load_loses_no_request(tmp_path: Path) -> None:
    with serving(versioned(tmp_path / "a", "old")) as old, serving(versioned(tmp_path / "b", "new")) as new:
        port, own_port = old.port, new.port
        [worker] = old.send_request({"do": "status"})["workers"]
        with Clients(port, 8) as clients:
            time.sleep(0.3)
            streamed = threading.Thread(target=stream_whole, args=(port, clients.responses))
            streamed.start()
            time.sleep(0.1)
            assert new.send_request({"do": "take_over", "from": str(old.run_dir / "control.sock")}) == {
                "port": port
            }
            assert old.wait() == 0
            streamed.join()
            time.sleep(0.3)
        assert clients.faults == []
        assert {"x-old", "x-new", "whole stream"} == set(clients.responses)
        assert clients.responses[-1] == "x-new"
        assert new.port == port
        refuses(own_port)
        assert not psutil.pid_exists(worker["pid"])
        assert sorted(path.name for path in old.run_dir.iterdir()) == ["server.log"]


def stream_whole(port: int, responses: list[str]) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    connection.request("POST", "/invocations", json.dumps({"do": "stream", "count": 6, "delay": 0.1}))
    body = connection.getresponse().read()
    responses.append("whole stream" if body.count(b"\n") == 6 else f"torn: {body!r}")
    connection.close()


def refuses(port: int) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_takeover_from_a_missing_server_changes_nothing(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", MANY_WAYS)) as served:
        response = served.send_request({"do": "take_over", "from": str(tmp_path / "nobody.sock")})
        assert "the server does not answer" in response["error"]
        assert served.post({"do": "echo", "text": "here"}) == (200, b"here")


@pytest.mark.parametrize("how", ["stop", "signal"])
def test_shutdown_completes_requests_in_flight_and_leaves_nothing(tmp_path: Path, how: str) -> None:
    with serving(write_model(tmp_path / "m", MANY_WAYS)) as served:
        port, responses = served.port, []
        [worker] = served.send_request({"do": "status"})["workers"]
        idle = served.connect(port)
        idle.request("GET", "/ping")
        idle.getresponse().read()
        requesting = threading.Thread(target=lambda: responses.append(post(port)))
        requesting.start()
        served.wait_in_flight(1)
        end(served, how)
        requesting.join()
        assert served.wait() == (0 if how == "stop" else 128 + signal.SIGTERM)
        assert responses == [(200, b"slept")]
        assert not psutil.pid_exists(worker["pid"])
        assert sorted(path.name for path in served.run_dir.iterdir()) == ["server.log"]


def post(port: int) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    connection.request("POST", "/invocations", json.dumps({"do": "sleep", "seconds": 0.8}))
    response = connection.getresponse()
    try:
        return response.status, response.read()
    finally:
        connection.close()


def end(served: RunningServer, how: str) -> None:
    if how == "stop":
        assert served.send_request({"do": "stop"}) == {"phase": "draining"}
    else:
        served.process.send_signal(signal.SIGTERM)


def test_second_signal_ends_the_server_immediately(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", MANY_WAYS)) as served:
        port = served.port
        [worker] = served.send_request({"do": "status"})["workers"]
        requesting = threading.Thread(target=cut_off, args=(port,))
        requesting.start()
        served.wait_in_flight(1)
        served.process.send_signal(signal.SIGTERM)
        served.wait_for("draining")
        served.process.send_signal(signal.SIGINT)
        assert served.wait() == 128 + signal.SIGINT
        requesting.join()
        assert not psutil.pid_exists(worker["pid"])


def cut_off(port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    connection.request("POST", "/invocations", json.dumps({"do": "sleep", "seconds": 20}))
    with pytest.raises(ConnectionError):
        connection.getresponse()
    connection.close()


def test_server_without_its_control_socket_ends(tmp_path: Path) -> None:
    """Its starter was killed before it recorded the process, and the next one removed the run folder."""
    with serving(write_model(tmp_path, MANY_WAYS)) as served:
        (served.run_dir / "control.sock").unlink()
        assert served.process.wait(TIMEOUT) == 0
        assert "the control socket was deleted" in served.text


def test_server_without_its_run_folder_does_not_start(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "lmi_deploy.server", str(tmp_path), "--engine-dir", str(tmp_path)]
    argv += ["--python", sys.executable, "--run-dir", str(tmp_path / "gone")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the folder of the sockets was deleted" in done.stdout + done.stderr
    assert not (tmp_path / "gone").exists()


def test_pipelined_requests_are_all_answered_before_shutdown(tmp_path: Path) -> None:
    send = b"POST /invocations HTTP/1.1\r\nContent-Length: 31\r\n\r\n" + b'{"do": "sleep", "seconds": 0.3}'
    with serving(write_model(tmp_path / "m", MANY_WAYS)) as served:
        with socket.create_connection(("127.0.0.1", served.port), timeout=TIMEOUT) as line:
            line.sendall(send * 3)
            time.sleep(0.1)
            end(served, "signal")
            observed = b""
            while chunk := line.recv(65536):
                observed += chunk
        assert observed.count(b"HTTP/1.1 200 OK") == 3
        assert served.wait() == 128 + signal.SIGTERM
