"""The task behind each resource on which something is under way, and the records that tasks go on from."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.resources import Kind

Key = tuple[str, str]
"""Region and name of a resource."""


class ResourceTasks(ABC):
    """The resources of one kind, in all regions. A new task of a resource cancels the one before, and starts when that
    one has finished.
    """

    def __init__(self, context: EmulatorContext, kind: Kind) -> None:
        self._context = context
        self._kind = kind
        self._running: dict[Key, asyncio.Task[None]] = {}

    @abstractmethod
    async def _run(self, key: Key) -> None:
        """Go on from the state in the record, to a stable one."""

    def begin(self, region: str, name: str) -> None:
        key = (region, name)
        task = asyncio.create_task(self._after(self._cancel(key), key), name=f"{self._kind.words} {name}")
        task.add_done_callback(report)
        self._running[key] = task

    async def _after(self, before: asyncio.Task[None] | None, key: Key) -> None:
        if before is not None:
            await asyncio.gather(before, return_exceptions=True)
        await self._run(key)

    def _cancel(self, key: Key) -> asyncio.Task[None] | None:
        before = self._running.get(key)
        if before is not None:
            before.cancel()
        return before

    def resume(self) -> None:
        """After a restart: continue what was in progress, restart what was in service."""
        for key in self._keys():
            self.begin(*key)

    async def end_tasks(self) -> None:
        """The records stay as they are."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _keys(self) -> Iterator[Key]:
        for region in self._context.store.regions(self._kind.table):
            for name, _ in self._context.table(self._kind.table, region).rows():
                yield region, name

    def _row(self, key: Key) -> Row:
        row = self._context.table(self._kind.table, key[0]).get(key[1])
        assert row is not None, key
        return row

    def _change(self, key: Key, **changes: Any) -> None:
        row = self._row(key)
        row.update(changes, modified=self._context.clock.now())
        self._context.table(self._kind.table, key[0]).put(key[1], row)

    def _drop(self, key: Key) -> None:
        self._context.table(self._kind.table, key[0]).drop(key[1])


class BackgroundTask(ABC):
    """One task for as long as the emulator runs."""

    name: ClassVar[str]

    def __init__(self, context: EmulatorContext) -> None:
        self._context = context
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self.name)
        self._task.add_done_callback(report)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @abstractmethod
    async def _run(self) -> None:
        """Until it is cancelled."""


def report(task: asyncio.Task[None]) -> None:
    """A task that fails by an internal error must not look like one that waits."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logging.getLogger(__name__).error("%s: %r", task.get_name(), error, exc_info=error)
