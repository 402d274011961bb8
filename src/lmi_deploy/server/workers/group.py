"""The workers of one model on one device."""

from __future__ import annotations

import asyncio
import datetime
import enum
from dataclasses import dataclass, field

from lmi_deploy.server.workers.devices import DevicePlacement
from lmi_deploy.server.workers.sync_worker import WorkerSession

RESTARTED_AFTER = 60.0  # seconds before a dead worker is replaced


class GroupStatus(enum.StrEnum):
    """The status of a model in /models."""

    PENDING = "PENDING"
    READY = "READY"
    FAILED = "FAILED"


@dataclass(slots=True, eq=False)
class Slot:
    """One place for a worker, and its state."""

    number: int
    temporary: bool
    shift: WorkerSession
    started_at: datetime.datetime
    alive: bool = True
    busy: bool = False
    died: float = 0.0
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def leave(self) -> None:
        """It accepts no further jobs."""
        self.alive = False
        self.died = asyncio.get_running_loop().time()


class Group:
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
