"""The tasks behind resources, and the records that they go on from."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.naming import Kind

Key = tuple[str, str]
"""Region and name of a resource."""


@dataclass(slots=True)
class Tasks:
    """One task a resource: a new task cancels the one before, and starts when that one has finished."""

    _running: dict[Key, asyncio.Task[None]] = field(default_factory=dict)

    def begin(self, key: Key, name: str, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(_after(self.cancel(key), work), name=name)
        task.add_done_callback(report)
        self._running[key] = task

    def cancel(self, key: Key) -> asyncio.Task[None] | None:
        before = self._running.get(key)
        if before is not None:
            before.cancel()
        return before

    async def stop(self) -> None:
        """End them all; the records stay as they are."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _after(before: asyncio.Task[None] | None, work: Callable[[], Awaitable[None]]) -> None:
    if before is not None:
        await asyncio.gather(before, return_exceptions=True)
    await work()


@dataclass(frozen=True, slots=True)
class Records:
    """Of one kind, in all regions."""

    context: EmulatorContext
    kind: Kind

    def all(self) -> Iterator[Key]:
        for region in self.context.store.regions(self.kind.table):
            for name, _ in self.context.table(self.kind.table, region).rows():
                yield region, name

    def get(self, key: Key) -> Row:
        row = self.context.table(self.kind.table, key[0]).get(key[1])
        assert row is not None, key
        return row

    def change(self, key: Key, **changes: Any) -> None:
        row = self.get(key)
        row.update(changes, modified=self.context.clock.now())
        self.context.table(self.kind.table, key[0]).put(key[1], row)

    def drop(self, key: Key) -> None:
        self.context.table(self.kind.table, key[0]).drop(key[1])


def report(task: asyncio.Task[None]) -> None:
    """A task that fails by an internal error must not look like one that waits."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logging.getLogger(__name__).error("%s: %r", task.get_name(), error, exc_info=error)
