"""The queue before a deployment."""

from __future__ import annotations

import asyncio

import pytest

from lmi_deploy.proxy.concurrency_limit import RequestLimiter
from lmi_deploy.proxy.openai_error import OpenAIError


def test_first_come_first_served_and_no_more_than_may_wait() -> None:
    async def run() -> None:
        limiter, order = RequestLimiter(concurrency=1, queue=2), []

        async def ask(name: str) -> None:
            await limiter.acquire()
            order.append(name)
            limiter.release()

        await limiter.acquire()
        waiting = [asyncio.create_task(ask(name)) for name in "ab"]
        await asyncio.sleep(0)
        assert (limiter.running, limiter.waiting) == (1, 2)
        with pytest.raises(OpenAIError, match="1 requests are running and 2 are waiting") as full:
            await limiter.acquire()
        assert (full.value.status, full.value.retry_after) == (429, 1)
        limiter.release()
        await asyncio.gather(*waiting)
        assert (order, limiter.running, limiter.waiting) == (["a", "b"], 0, 0)

    asyncio.run(run())


def test_one_that_leaves_loses_no_slot() -> None:
    async def run() -> None:
        limiter = RequestLimiter(concurrency=1, queue=5)
        await limiter.acquire()
        waiting = [asyncio.create_task(limiter.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        limiter.release()
        waiting[1].cancel()  # in the moment in which its turn comes
        await asyncio.gather(*waiting, return_exceptions=True)
        assert waiting[2].done()
        assert (limiter.running, limiter.waiting) == (1, 0)
        limiter.release()
        assert limiter.running == 0

    asyncio.run(run())
