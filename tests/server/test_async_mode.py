"""option.async_mode: many concurrent requests in one worker."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from tests.server.handlers import ASYNC
from tests.support.running_server import launched, serving, write_model

pytestmark = pytest.mark.worker

PROPERTIES = "engine=Python\noption.async_mode=true\nminWorkers=1\nmaxWorkers=1\n"


def test_async_requests_do_not_wait_for_each_other(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", ASYNC, PROPERTIES)) as served:
        responses: list[bytes] = []

        def send(number: int) -> None:
            seconds = 0.1 if number else 5
            responses.append(served.post({"do": "sleep", "seconds": seconds, "text": str(number)})[1])

        threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
            served.wait_in_flight(1)
        for thread in threads:
            thread.join()
        assert sorted(responses) == [b"%d\n" % number for number in range(8)]
        assert responses[-1] == b"0\n"  # it came first, and no other request waited for it
        assert served.post({"do": "stream", "text": "s", "count": 3}) == (200, b"s-0\ns-1\ns-2\n")


def test_dead_worker_fails_all_its_requests_and_is_replaced(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", ASYNC, PROPERTIES + "retry_threshold=1\n")) as served:
        responses: list[tuple[int, bytes]] = []
        waiting = threading.Thread(
            target=lambda: responses.append(served.post({"do": "sleep", "seconds": 60, "text": ""}))
        )
        waiting.start()
        served.wait_in_flight(1)
        assert served.post({"do": "exit"})[0] == 500
        waiting.join()
        assert responses[0][0] == 500
        assert b"Inference Engine Failure" in responses[0][1]
        assert served.post({"do": "say", "text": "again"}) == (200, b"again\n")


def test_failed_start_ends_the_server(tmp_path: Path) -> None:
    handler = "async def handle(inputs):\n    raise RuntimeError('no weights here')"
    with launched(write_model(tmp_path / "m", handler, PROPERTIES)) as served:
        assert served.wait() == 1
        assert any("no weights here" in line for line in served.failure()["last_lines"])


PARTS = """
import asyncio
from djl_python import Output

async def pieces(given):
    for piece in given:
        await asyncio.sleep(0.2)
        yield Output().add(Output.binary_encode(piece))

async def handle(inputs):
    if inputs.is_empty():
        return Output()
    return pieces(inputs.get_as_json())
"""


@pytest.mark.parametrize(
    ("chunks", "body"),
    [
        # A code in a chunk without data that is not the last is ignored, and ends nothing.
        (
            [{"data": "a"}, {"data": "", "code": 500, "error": "mid"}, {"data": "late", "last": True}],
            b"alate",
        ),
        # Fields that a chunk omits keep the value of the previous one.
        ([{"data": "a", "last": False}, {"last": True}], b"aa"),
        ([{"data": "", "last": False}, {"data": "x"}, {"data": "", "last": True}], b"x"),
        ([{"data": "a"}, {"data": "b", "code": 418, "error": "no"}], b'a{"error":"no","code":418}'),
    ],
)
def test_incomplete_chunks_are_answered(tmp_path: Path, chunks: list[dict[str, object]], body: bytes) -> None:
    with serving(write_model(tmp_path / "m", PARTS, PROPERTIES)) as served:
        assert served.post(chunks) == (200, body)


def test_async_stream_can_be_polled(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", ASYNC, PROPERTIES)) as served:
        connection = served.connect()
        requests = json.dumps({"do": "stream", "text": "s", "count": 2, "delay": 1})
        connection.request("POST", "/invocations", requests, {"x-synchronous": "false"})
        response = connection.getresponse()
        token = response.getheader("x-next-token") or ""
        response.read()
        bodies: list[bytes] = []
        while not bodies or bodies[-1] != b"s-0\ns-1\n":
            connection.request("POST", "/invocations", "", {"x-starting-token": token})
            polled = connection.getresponse()
            bodies.append(polled.read())
            time.sleep(0.05)
        assert set(bodies) <= {b"", b"s-0\n", b"s-0\ns-1\n"}
