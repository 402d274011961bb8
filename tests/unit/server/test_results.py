"""Results that are fetched later: kept within bounds, and never at the cost of a worker that waits to be read."""

from __future__ import annotations

import asyncio

import pytest

from lmi_deploy.server.jobs import Frame, Job
from lmi_deploy.server.log import Log
from lmi_deploy.server.refusals import Refusal
from lmi_deploy.server.tokens import Results
from lmi_deploy.server.wire import Answer


def new_job() -> Job:
    return Job([], [], lambda: False, asyncio.get_running_loop().create_future())


def keep(results: Results) -> tuple[str, Job]:
    job = new_job()
    return dict(results.keep(job).receipt().headers)["x-next-token"], job


async def settle(job: Job, size: int) -> None:
    job.settle(Answer(200, "OK", content=(("data", bytes(size)),)))
    for _ in range(3):
        await asyncio.sleep(0)


def forgotten(results: Results, token: str) -> bool:
    try:
        results.poll(token)
    except Refusal as refusal:
        return refusal.status == 400
    return False


def test_the_oldest_results_are_given_up_when_all_are_too_large() -> None:
    async def go() -> None:
        results = Results(Log(), most_bytes=100)
        first, one = keep(results)
        second, two = keep(results)
        third, three = keep(results)
        await settle(two, 60)
        await settle(three, 30)
        assert [forgotten(results, token) for token in (first, second, third)] == [False] * 3
        await settle(one, 20)
        assert [forgotten(results, token) for token in (first, second, third)] == [True, False, False]
        assert one.abandoned
        assert len(results.poll(second).body) == 60

    asyncio.run(go())


def test_too_many_results_give_up_the_oldest_which_is_not_run_any_more() -> None:
    async def go() -> None:
        results = Results(Log(), most_kept=2)
        tokens = [keep(results) for _ in range(3)]
        assert [forgotten(results, token) for token, _ in tokens] == [True, False, False]
        assert [job.gone() for _, job in tokens] == [True, False, False]

    asyncio.run(go())


def test_a_stream_that_nobody_will_fetch_does_not_hold_its_worker(capsys: pytest.CaptureFixture[str]) -> None:
    async def go() -> None:
        results = Results(Log(), most_bytes=100)
        token, job = keep(results)
        job.settle(Answer(200, "OK", streamed=True))
        async with asyncio.timeout(10):
            for _ in range(200):
                await job.deliver(Frame(bytes(10)))
        assert forgotten(results, token)
        assert job.abandoned

    asyncio.run(go())
    assert "given up" in capsys.readouterr().out
