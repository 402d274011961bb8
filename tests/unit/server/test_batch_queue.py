"""The queue of jobs, and batches that are merged and split."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.workers.batch_queue import (
    BatchQueue,
    ClientDisconnected,
    Frame,
    QueuedRequest,
    merge_requests,
    split_response,
)
from lmi_deploy.server.workers.djl_protocol import WorkerResponse


def job(name: str = "x", missing: Callable[[], bool] = lambda: False) -> QueuedRequest:
    return QueuedRequest(
        [("name", name)], [("data", name.encode())], missing, asyncio.get_running_loop().create_future()
    )


def names(jobs: list[QueuedRequest]) -> list[str]:
    return [one.properties[0][1] for one in jobs]


def test_jobs_are_taken_in_order() -> None:
    async def go() -> None:
        queue = BatchQueue(10)
        for name in "abc":
            queue.put(job(name))
        assert names(await queue.take(most=2, delay=0, idle=None)) == ["a", "b"]
        assert queue.capacity_left == 9

    asyncio.run(go())


def test_full_batch_does_not_wait_for_the_delay() -> None:
    async def go() -> None:
        queue = BatchQueue(10)
        used = asyncio.create_task(queue.take(most=2, delay=60, idle=None))
        for name in "ab":
            await asyncio.sleep(0)
            queue.put(job(name))
        assert names(await used) == ["a", "b"]

    asyncio.run(go())


def test_incomplete_batch_leaves_after_the_delay_and_an_idle_taker_gets_nothing() -> None:
    async def go() -> None:
        queue = BatchQueue(10)
        queue.put(job("a"))
        assert names(await queue.take(most=4, delay=0.01, idle=None)) == ["a"]
        assert await queue.take(most=4, delay=0.01, idle=0.01) == []

    asyncio.run(go())


def test_cancelled_taker_loses_no_job() -> None:
    async def go() -> None:
        queue = BatchQueue(10)
        queue.put(job("a"))
        waiting = asyncio.create_task(queue.take(most=4, delay=60, idle=None))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        queue.put(job("b"))
        queue.put_back([job("0"), job("1")])
        assert names(await queue.take(most=4, delay=0, idle=None)) == ["0", "1", "a", "b"]

    asyncio.run(go())


def test_two_takers_never_get_the_same_job() -> None:
    async def go() -> None:
        queue = BatchQueue(100)
        takers = [asyncio.create_task(queue.take(most=1, delay=0, idle=1)) for _ in range(20)]
        for number in range(20):
            queue.put(job(str(number)))
        used = [name for batch in await asyncio.gather(*takers) for name in names(batch)]
        assert sorted(used, key=int) == [str(number) for number in range(20)]

    asyncio.run(go())


def test_job_of_a_disconnected_client_is_skipped_and_settled() -> None:
    async def go() -> None:
        queue = BatchQueue(10)
        left = job("left", missing=lambda: True)
        queue.put(left)
        queue.put(job("here"))
        assert names(await queue.take(most=1, delay=0, idle=None)) == ["here"]
        with pytest.raises(ClientDisconnected):
            await left.response

    asyncio.run(go())


def test_abandoned_stream_does_not_block_its_sender() -> None:
    async def go() -> None:
        one = job()

        async def send() -> None:
            for _ in range(1000):
                await one.deliver(Frame(b"x"))

        sender = asyncio.create_task(send())
        await asyncio.sleep(0)
        assert not sender.done()
        one.abandon()
        await asyncio.wait_for(sender, 5)

    asyncio.run(go())


def test_one_job_is_a_request_and_two_are_a_batch() -> None:
    async def go() -> None:
        assert merge_requests([job("a")], "handle") == ([("name", "a")], [("data", b"a")])
        properties, content = merge_requests([job("a"), job("b")], "handle")
        assert properties == [
            ("batch_000.name", "a"),
            ("batch_001.name", "b"),
            ("batch_size", "2"),
            ("handler", "handle"),
        ]
        assert content == [("batch_000.data", b"a"), ("batch_001.data", b"b")]

    asyncio.run(go())


def test_batch_response_is_split() -> None:
    response = WorkerResponse(
        201, "Made", (("k", "v"),), (("batch_1.", b"second"), ("batch_0.data", b"first"))
    )
    assert [part.body() for part in split_response(response, 2)] == [b"first", b"second"]
    assert {(part.code, part.message, part.properties) for part in split_response(response, 2)} == {
        (201, "Made", (("k", "v"),))
    }


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ((("batch_0.", b""),), "Batch output size mismatch, expected: 2, actual: 1"),
        ((("k0", b""), ("batch_1.", b"")), "Unexpected batch output key: k0"),
        ((("batch_0.", b""), ("batch_2.", b"")), "Unexpected batch output key: batch_2."),
    ],
)
def test_batch_response_of_the_wrong_size_is_refused(
    content: tuple[tuple[str, bytes], ...], why: str
) -> None:
    with pytest.raises(ErrorReply) as caught:
        split_response(WorkerResponse(200, "OK", (), content), 2)
    assert caught.value.message == why
