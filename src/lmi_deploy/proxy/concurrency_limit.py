"""How many requests a deployment gets at the same time, and how many may wait."""

from __future__ import annotations

import asyncio
from collections import deque

from lmi_deploy.proxy.openai_error import RETRY_SECONDS, OpenAIError


class RequestLimiter:
    """First come, first served. Belongs to one event loop."""

    def __init__(self, *, concurrency: int, queue: int) -> None:
        self._concurrency = concurrency
        self._queue = queue
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.running = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def acquire(self) -> None:
        """A slot; OpenAIError (429) if too many wait already."""
        if self.running < self._concurrency:
            self.running += 1
            return
        if len(self._waiting) >= self._queue:
            raise OpenAIError(
                429,
                f"{self.running} requests are running and {self.waiting} are waiting, which is the limit "
                "(--concurrency, --queue of lmi proxy)",
                code="queue_full",
                retry_after=RETRY_SECONDS,
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # its turn came in the same moment
            else:
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """The slot goes to the one that waits longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.running -= 1
