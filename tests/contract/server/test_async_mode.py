"""option.async_mode: many requests in one worker at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.contract.server.handlers import ASYNC
from tests.support.served import launched, serving, write_model

pytestmark = pytest.mark.worker

PROPERTIES = "engine=Python\noption.async_mode=true\nminWorkers=1\nmaxWorkers=1\n"


def test_requests_do_not_wait_for_each_other(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", ASYNC, PROPERTIES)) as served:
        answers: list[bytes] = []

        def ask(number: int) -> None:
            seconds = 0.1 if number else 5
            answers.append(served.post({"do": "sleep", "seconds": seconds, "text": str(number)})[1])

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
            served.wait_in_flight(1)
        for thread in threads:
            thread.join()
        assert sorted(answers) == [b"%d\n" % number for number in range(8)]
        assert answers[-1] == b"0\n"  # it came first, and nobody waited for it
        assert served.post({"do": "stream", "text": "s", "count": 3}) == (200, b"s-0\ns-1\ns-2\n")


def test_a_dead_worker_answers_everybody_at_once_and_is_replaced(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", ASYNC, PROPERTIES + "retry_threshold=1\n")) as served:
        answers: list[tuple[int, bytes]] = []
        waiting = threading.Thread(
            target=lambda: answers.append(served.post({"do": "sleep", "seconds": 60, "text": ""}))
        )
        waiting.start()
        served.wait_in_flight(1)
        assert served.post({"do": "exit"})[0] == 500
        waiting.join()
        assert answers[0][0] == 500
        assert b"Inference Engine Failure" in answers[0][1]
        assert served.post({"do": "say", "text": "again"}) == (200, b"again\n")


def test_a_start_that_fails_ends_the_server(tmp_path: Path) -> None:
    handler = "async def handle(inputs):\n    raise RuntimeError('no weights here')"
    with launched(write_model(tmp_path / "m", handler, PROPERTIES)) as served:
        assert served.wait() == 1
        assert any("no weights here" in line for line in served.failure()["last_lines"])
