"""option.async_mode: many requests in one worker at once."""

from __future__ import annotations

import threading
import time
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
            answers.append(served.post({"do": "sleep", "seconds": 1 - number * 0.1, "text": str(number)})[1])

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.monotonic() - begun < 4  # one after the other would be 5.2 s
        assert sorted(answers) == [b"%d\n" % number for number in range(8)]
        assert served.post({"do": "stream", "text": "s", "count": 3}) == (200, b"s-0\ns-1\ns-2\n")


def test_a_dead_worker_answers_everybody_at_once_and_is_replaced(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", ASYNC, PROPERTIES + "retry_threshold=1\n")) as served:
        answers: list[tuple[int, bytes]] = []
        waiting = threading.Thread(
            target=lambda: answers.append(served.post({"do": "sleep", "seconds": 60, "text": ""}))
        )
        waiting.start()
        time.sleep(0.2)
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
