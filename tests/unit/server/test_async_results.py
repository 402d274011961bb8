"""Results for later polls: limited in number and size, and never at the cost of a waiting worker."""

from __future__ import annotations

import asyncio

import pytest

from lmi_deploy.server.async_results import Results
from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http.responses import Response
from lmi_deploy.server.log import Log
from lmi_deploy.server.workers.batch_queue import Frame, QueuedRequest
from lmi_deploy.server.workers.djl_protocol import WorkerResponse


def new_job() -> QueuedRequest:
    return QueuedRequest([], [], lambda: False, asyncio.get_running_loop().create_future())


def keep(results: Results) -> tuple[str, QueuedRequest]:
    job = new_job()
    return dict(results.add(job).receipt().headers)["x-next-token"], job


async def settle(job: QueuedRequest, size: int) -> None:
    job.settle(WorkerResponse(200, "OK", content=(("data", bytes(size)),)))
    for _ in range(3):
        await asyncio.sleep(0)


def forgotten(results: Results, token: str) -> bool:
    try:
        results.poll(token)
    except ErrorReply as refusal:
        return refusal.status == 400
    return False


def test_oldest_results_are_dropped_above_the_size_limit() -> None:
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


def test_oldest_result_is_dropped_and_cancelled_above_the_count_limit() -> None:
    async def go() -> None:
        results = Results(Log(), max_results=2)
        tokens = [keep(results) for _ in range(3)]
        assert [forgotten(results, token) for token, _ in tokens] == [True, False, False]
        assert [job.is_disconnected() for _, job in tokens] == [True, False, False]

    asyncio.run(go())


def test_stream_that_is_not_polled_does_not_block_its_worker(capsys: pytest.CaptureFixture[str]) -> None:
    async def go() -> None:
        results = Results(Log(), most_bytes=100)
        token, job = keep(results)
        job.settle(WorkerResponse(200, "OK", streamed=True))
        async with asyncio.timeout(10):
            for _ in range(200):
                await job.deliver(Frame(bytes(10)))
        assert forgotten(results, token)
        assert job.abandoned

    asyncio.run(go())
    assert "dropped" in capsys.readouterr().out


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def polled(reply: Response) -> tuple[int, bytes, str | None, str | None]:
    """Status, body, and the two headers of the next token, without the token itself."""
    headers = {name.lower(): value for name, value in reply.headers}
    following = headers.get("x-next-token")
    attribute = headers.get("x-amzn-sagemaker-custom-attributes")
    return reply.status, reply.body, following and following[36:], attribute and attribute[:13]


def test_each_poll_returns_what_has_arrived() -> None:
    async def go() -> None:
        results = Results(Log())
        token, job = keep(results)
        assert polled(results.poll(token)) == (202, b"", "", "x-next-token=")
        job.settle(WorkerResponse(200, "OK", (("X-Own", "1"),), streamed=True))
        await job.deliver(Frame(b"c0"))
        await turns()
        assert polled(results.poll(token)) == (200, b"c0", "1", "x-next-token=")
        await job.deliver(Frame(b"c1"))
        await turns()
        assert polled(results.poll(token)) == (200, b"c0c1", "1", "x-next-token=")  # the head keeps its token
        assert polled(results.poll(f"{token}1")) == (200, b"c1", "2", "x-next-token=")
        assert polled(results.poll(f"{token}2")) == (200, b"", "2", "x-next-token=")
        await job.deliver(Frame(b"c2", last=True))
        await turns()
        assert polled(results.poll(f"{token}2")) == (200, b"c2", None, None)
        assert polled(results.poll(f"{token}1", 1)) == (200, b"c1", "2", "x-next-token=")
        assert polled(results.poll(token, 2))[:2] == (200, b"c0c1")
        assert ("X-Own", "1") in results.poll(token).headers
        assert ("X-Own", "1") not in results.poll(f"{token}1").headers

    asyncio.run(go())


def test_finished_stream_has_no_next_token() -> None:
    async def go() -> None:
        results = Results(Log())
        token, job = keep(results)
        job.settle(WorkerResponse(200, "OK", streamed=True))
        for frame in (Frame(b"a"), Frame(last=True)):
            await job.deliver(frame)
        await turns()
        assert polled(results.poll(token)) == (200, b"a", None, None)

    asyncio.run(go())


def test_unary_response_has_no_next_token() -> None:
    async def go() -> None:
        results = Results(Log())
        token, job = keep(results)
        await settle(job, 3)
        assert polled(results.poll(token)) == (200, bytes(3), "0", "x-next-token=")
        assert polled(results.poll(f"{token}0")) == (200, bytes(3), "0", "x-next-token=")

    asyncio.run(go())


def test_async_response_has_its_head_before_its_body() -> None:
    async def go() -> None:
        results = Results(Log())
        job = new_job()
        result = results.add(job)
        result.stream()
        assert polled(results.poll(result.token)) == (200, b"", "0", "x-next-token=")
        job.settle(WorkerResponse(424, "no", (("X-Late", "1"),), streamed=True))
        await job.deliver(Frame(b"failed", last=True))
        await turns()
        reply = results.poll(result.token)
        assert polled(reply) == (200, b"failed", "0", "x-next-token=")
        assert ("X-Late", "1") in reply.headers

    asyncio.run(go())


@pytest.mark.parametrize(
    ("suffix", "why"), [("x", "Failed to lookup cache element"), ("-1", "Invalid x-starting-token: ")]
)
def test_invalid_token_number_is_refused(suffix: str, why: str) -> None:
    async def go() -> None:
        results = Results(Log())
        token, _ = keep(results)
        with pytest.raises(ErrorReply, match=why):
            results.poll(token + suffix)

    asyncio.run(go())
