"""The workers of one model on one device, and what a pool needs of each: `WorkerSession`."""

from __future__ import annotations

import asyncio
import datetime
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.workers.batch_queue import QueuedRequest
from lmi_deploy.server.workers.devices import DevicePlacement

RESTARTED_AFTER = 60.0  # seconds before a dead worker is replaced


class WorkerFailed(Exception):
    """The worker cannot go on; `refusal` is for the clients of its jobs, `text` for the log.

    `counted`: whether it counts against retry_threshold.
    """

    def __init__(self, refusal: ErrorReply, text: str, *, counted: bool = True) -> None:
        super().__init__(text)
        self.refusal = refusal
        self.text = text
        self.counted = counted


Following = Callable[[], QueuedRequest | None]


class WorkerSession(Protocol):
    """What a pool needs of a worker of any engine. `lost` is set when it dies outside of `serve`."""

    worker_lost: asyncio.Future[WorkerFailed]
    fetched: Sequence[QueuedRequest]

    @property
    def pid(self) -> int | None: ...

    async def start(self) -> None: ...

    async def serve(self, jobs: Sequence[QueuedRequest], following: Following, /) -> None:
        """Answer the jobs; `WorkerFailed` when the worker was lost during them.

        The worker may receive the job of `following` before it has answered: `fetched` is then that job, to be served
        next. If the worker is lost first, that job counts as not started: a worker reads a request only after it
        answered the one before.
        """

    async def finished(self) -> None:
        """Until no request is in progress any more."""

    async def stop(self) -> None: ...


class WorkerGroupStatus(enum.StrEnum):
    """The status of a model in /models."""

    PENDING = "PENDING"
    READY = "READY"
    FAILED = "FAILED"


@dataclass(slots=True, eq=False)
class Slot:
    """One place for a worker, and its state."""

    number: int
    temporary: bool
    session: WorkerSession
    started_at: datetime.datetime
    alive: bool = True
    busy: bool = False
    died: float = 0.0
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def leave(self) -> None:
        """It accepts no further jobs."""
        self.alive = False
        self.died = asyncio.get_running_loop().time()


class WorkerGroup:
    """Its bounds, which management may move, and its slots, the dead ones among them for a while."""

    def __init__(self, place: DevicePlacement) -> None:
        self.place = place
        self.low, self.high = place.low, place.high
        self.slots: list[Slot] = []
        self.scaling = asyncio.Lock()

    @property
    def running(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.alive]

    def capacity_left(self, now: float) -> int:
        """How many workers more it may have; the dead keep their place for a minute."""
        self.slots = [slot for slot in self.slots if slot.alive or now - slot.died < RESTARTED_AFTER]
        return self.high - len(self.slots)
