"""Requests through the front end into DJL's real engine and back."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.server.handlers import BATCHED, MANY_WAYS
from tests.support.running_server import TIMEOUT, RunningServer, launched, serving, write_model

pytestmark = pytest.mark.worker


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_model(tmp_path_factory.mktemp("many") / "m", MANY_WAYS)) as served:
        yield served


def test_response_headers_and_their_order_are_those_of_djl(server: RunningServer) -> None:
    connection = server.connect()
    connection.request("POST", "/invocations", '{"do": "echo", "text": "hi"}', {"X-Request-ID": "abc"})
    response = connection.getresponse()
    assert response.read() == b"hi"
    assert response.getheaders() == [
        ("x-request-id", "abc"),
        ("Pragma", "no-cache"),
        ("Cache-Control", "no-cache; no-store, must-revalidate, private"),
        ("Expires", "Thu, 01 Jan 1970 00:00:00 UTC"),
        ("content-length", "2"),
        ("connection", "keep-alive"),
    ]


def test_each_stream_chunk_is_sent_immediately(server: RunningServer) -> None:
    chunks = list(raw_chunks(server.port, {"do": "stream", "count": 3, "delay": 0.2}))
    assert [blob for _, blob in chunks] == [b'{"outputs": "t%d"}\n' % n for n in range(3)]
    assert chunks[2][0] - chunks[0][0] > 0.3


def raw_chunks(port: int, body: object) -> Iterator[tuple[float, bytes]]:
    raw = json.dumps(body).encode()
    with (
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as line,
        line.makefile("rb") as reader,
    ):
        line.sendall(b"POST /invocations HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(raw), raw))
        while reader.readline().strip():
            continue
        while size := int(reader.readline(), 16):
            yield time.monotonic(), reader.read(size)
            reader.readline()


def test_failing_handler_is_424_and_the_worker_continues(server: RunningServer) -> None:
    status, body = server.post({"do": "nonsense"})
    assert (status, json.loads(body)["error"]) == (424, "do what?")
    assert server.post({"do": "echo", "text": "still here"}) == (200, b"still here")


def test_requests_are_served_in_order(server: RunningServer) -> None:
    answered: list[int] = []

    def send(number: int) -> None:
        server.post({"do": "sleep", "seconds": 0.05})
        answered.append(number)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
        time.sleep(0.03)
    for thread in threads:
        thread.join()
    assert answered == list(range(6))


def test_queued_request_of_a_disconnected_client_is_not_run(server: RunningServer) -> None:
    before = int(server.post({"do": "count"})[1])
    existing = threading.Thread(target=server.post, args=({"do": "sleep", "seconds": 2},))
    existing.start()
    server.wait_in_flight(1)
    raw = b'{"do": "count"}'
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        line.sendall(b"POST /invocations HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(raw), raw))
        server.wait_in_flight(2)
    existing.join()
    assert int(server.post({"do": "count"})[1]) == before + 2


def test_large_response_to_a_slow_reader_is_complete(server: RunningServer) -> None:
    status, body = server.post({"do": "big", "size": 20_971_520})
    assert (status, len(body)) == (200, 20_971_520)


def test_worker_gets_no_credentials(tmp_path: Path) -> None:
    environ = {"HF_TOKEN": "hf_x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_SESSION_TOKEN": "z", "PLAIN": "1"}
    with serving(write_model(tmp_path / "m", MANY_WAYS), environ=environ) as served:
        observed = json.loads(served.post({"do": "environ"})[1])
    assert observed["PLAIN"] == "1"
    assert not {"HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} & set(observed)


def test_status_ping_and_models_agree(server: RunningServer) -> None:
    status = server.send_request({"do": "status"})
    assert (status["phase"], status["model"], status["pid"]) == ("ready", "m", server.process.pid)
    [worker] = status["workers"]
    assert psutil.Process(worker["pid"]).ppid() == server.process.pid
    assert worker["rss_bytes"] > 1_000_000
    assert server.get("/ping") == (200, b'{\n  "m": {\n    "status": "Healthy"\n  }\n}\n')
    [described] = json.loads(server.get("/models/m")[1])
    assert described["models"][0]["workerGroups"][0]["workers"][0]["status"] == "READY"


def test_concurrent_requests_form_one_batch(tmp_path: Path) -> None:
    properties = "engine=Python\nbatch_size=4\nmax_batch_delay=300\nminWorkers=1\nmaxWorkers=1\n"
    responses: list[bytes] = []
    with serving(write_model(tmp_path / "m", BATCHED, properties)) as served:
        threads = [
            threading.Thread(target=lambda n=n: responses.append(served.post(n)[1]), daemon=True)
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(responses) == [b"%d of 4" % n for n in range(4)]


def test_full_queue_refuses_immediately(tmp_path: Path) -> None:
    properties = "engine=Python\njob_queue_size=2\nminWorkers=1\nmaxWorkers=1\n"
    statuses: list[int] = []
    with serving(write_model(tmp_path / "m", MANY_WAYS, properties)) as served:
        send = {"do": "sleep", "seconds": 0.5}
        threads = [threading.Thread(target=lambda: statuses.append(served.post(send)[0])) for _ in range(4)]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
        for thread in threads:
            thread.join()
    assert statuses == [503, 503, 200, 200]


class TestCrash:
    def test_crash_in_a_call_is_503_and_the_model_fails(self, tmp_path: Path) -> None:
        with serving(write_model(tmp_path / "m", MANY_WAYS)) as served:
            status, body = served.post({"do": "exit"})
            assert (status, json.loads(body)["type"]) == (503, "WlmException")
            assert served.get("/ping")[0] == 500
            assert json.loads(served.post({"do": "count"})[1])["message"] == "Model is not ready: m"
            response = served.send_request({"do": "status"})
            assert (response["phase"], response["workers"]) == ("failed", [])
            assert "exit code 5" in response["message"]

    def test_crash_with_a_second_worker_keeps_the_model_ready(self, tmp_path: Path) -> None:
        properties = "engine=Python\nretry_threshold=1\nminWorkers=2\nmaxWorkers=2\n"
        with serving(write_model(tmp_path / "m", MANY_WAYS, properties)) as served:
            assert served.post({"do": "exit"})[0] == 503
            assert served.get("/ping")[0] == 200
            assert served.post({"do": "echo", "text": "other"}) == (200, b"other")

    def test_crash_in_a_stream_resets_the_connection(self, tmp_path: Path) -> None:
        with serving(write_model(tmp_path / "m", MANY_WAYS)) as served:
            assert cut_stream(served.port) == [b'{"outputs": "t0"}\n', b'{"outputs": "t1"}\n']
            assert served.post({"do": "count"}) == (
                400,
                b'{\n  "code": 400,\n  "type": "TranslateException",\n'
                b'  "message": "Backend Python process is stopped."\n}\n',
            )

    def test_call_over_predict_timeout_is_503_and_ends_the_worker(self, tmp_path: Path) -> None:
        properties = "engine=Python\noption.predict_timeout=1\nminWorkers=1\nmaxWorkers=1\n"
        with serving(write_model(tmp_path / "m", MANY_WAYS, properties)) as served:
            [worker] = served.send_request({"do": "status"})["workers"]
            status, body = served.post({"do": "sleep", "seconds": 30})
            assert (status, json.loads(body)["message"]) == (503, "java.util.concurrent.TimeoutException")
            assert_ended(worker["pid"])

    def test_killed_server_ends_its_workers(self, tmp_path: Path) -> None:
        with serving(write_model(tmp_path / "m", MANY_WAYS)) as served:
            [worker] = served.send_request({"do": "status"})["workers"]
            os.kill(served.process.pid, signal.SIGKILL)
            served.wait()
            assert_ended(worker["pid"])


class TestRemoval:
    """A model or a worker is removed while requests are in flight."""

    def test_requests_in_flight_of_a_removed_model_are_503(self, tmp_path: Path) -> None:
        with serving(write_model(tmp_path / "m", MANY_WAYS)) as served:
            statuses = requests_during(served, "DELETE", "/models/m")
            assert statuses == [503, 503, 503]
            assert served.get("/ping") == (200, b"{}\n")

    def test_requests_in_flight_of_a_removed_worker_are_answered(self, tmp_path: Path) -> None:
        properties = "engine=Python\nminWorkers=2\nmaxWorkers=2\n"
        with serving(write_model(tmp_path / "m", MANY_WAYS, properties)) as served:
            before = {worker["pid"] for worker in served.send_request({"do": "status"})["workers"]}
            assert requests_during(served, "PUT", "/models/m?min_worker=1&max_worker=1") == [200, 200, 200]
            after = {worker["pid"] for worker in served.send_request({"do": "status"})["workers"]}
            assert len(after) == 1
            for pid in before - after:
                assert_ended(pid)


def requests_during(served: RunningServer, method: str, path: str) -> list[int]:
    """Statuses of three requests in flight during a management call."""
    statuses: list[int] = []
    send = {"do": "sleep", "seconds": 1}
    threads = [threading.Thread(target=lambda: statuses.append(served.post(send)[0])) for _ in range(3)]
    for thread in threads:
        thread.start()
    served.wait_in_flight(3)
    connection = served.connect()
    connection.request(method, path)
    assert connection.getresponse().status == 200
    for thread in threads:
        thread.join(TIMEOUT)
    return statuses


def cut_stream(port: int) -> list[bytes]:
    """The chunks of a stream that is reset before its end."""
    observed: list[bytes] = []
    try:
        for _, blob in raw_chunks(port, {"do": "stream", "count": 3, "delay": 0.05, "exit_at": 2}):
            observed.append(blob)
    except (ConnectionError, ValueError):
        return observed
    raise AssertionError("the stream ended as if it were whole")


def assert_ended(pid: int) -> None:
    """Waits until the process has ended."""
    deadline = time.monotonic() + TIMEOUT
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"{pid} still lives"
        time.sleep(0.02)


class TestFailedStart:
    @pytest.mark.parametrize(
        ("handler", "phase", "words"),
        [
            ("raise RuntimeError('no weights here')", "start", "no weights here"),
            ("import os\nos._exit(4)", "start", None),
            (
                "def handle(inputs):\n    raise RuntimeError('no weights here')",
                "initialise",
                "no weights here",
            ),
            (
                "import os\ndef handle(inputs):\n    print('last words', flush=True)\n    os._exit(3)",
                "initialise",
                "last words",
            ),
        ],
    )
    def test_failed_start_ends_with_1_and_the_worker_message(
        self, tmp_path: Path, handler: str, phase: str, words: str | None
    ) -> None:
        with launched(write_model(tmp_path / "m", handler)) as served:
            assert served.wait() == 1
            response = served.failure()
            assert response["phase"] == phase
            assert words is None or any(words in line for line in response["last_lines"])
            assert response["message"] in served.text
            assert sorted(path.name for path in served.run_dir.iterdir()) == ["failure.json", "server.log"]

    def test_load_over_its_time_limit_fails_the_start(self, tmp_path: Path) -> None:
        handler = "import time\ndef handle(inputs):\n    time.sleep(60)"
        folder = write_model(tmp_path / "m", handler, "engine=Python\noption.model_loading_timeout=1\n")
        with launched(folder) as served:
            assert served.wait() == 1
            assert "model_loading_timeout" in served.failure()["message"]

    @pytest.mark.parametrize(
        ("properties", "why"),
        [("engine=DeepSpeed\n", "engine not found"), ("engine=Python\nbatch_size=abc\n", "batch_size=abc")],
    )
    def test_invalid_settings_fail_the_start(self, tmp_path: Path, properties: str, why: str) -> None:
        with launched(write_model(tmp_path / "m", MANY_WAYS, properties)) as served:
            assert served.wait() == 1
            assert served.failure()["phase"] == "settings"
            assert why in served.failure()["message"]

    def test_port_in_use_fails_the_start(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as used:
            port = str(used.getsockname()[1])
            with launched(write_model(tmp_path / "m", MANY_WAYS), "--port", port) as served:
                assert served.wait() == 1
                assert served.failure()["phase"] == "listen"

    def test_loading_server_refuses_connections_and_answers_its_control_socket(self, tmp_path: Path) -> None:
        handler = "import time\ndef handle(inputs):\n    time.sleep(3)"
        with launched(write_model(tmp_path / "m", handler)) as served:
            served.wait_for("loading")
            port = served.port
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
            served.send_request({"do": "stop"})
            assert served.wait() == 0
