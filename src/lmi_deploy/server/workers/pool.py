"""The workers of one model: started, fed from the queue, lost, and given up as the real server does."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
from collections.abc import Callable, Coroutine, Sequence

from lmi_deploy.server import error_responses
from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.models.lora_adapters import LoraAdapters
from lmi_deploy.server.models.serving_properties import ServingProperties
from lmi_deploy.server.prometheus_metrics import PrometheusMetrics
from lmi_deploy.server.workers.batch_queue import BatchQueue, QueuedRequest
from lmi_deploy.server.workers.devices import DevicePlacement
from lmi_deploy.server.workers.pool_log import PoolLog
from lmi_deploy.server.workers.worker import LoadFailure
from lmi_deploy.server.workers.worker_group import (
    Slot,
    WorkerFailed,
    WorkerGroup,
    WorkerGroupStatus,
    WorkerSession,
)

NewSession = Callable[[ServingProperties, DevicePlacement], WorkerSession]


class Pool:
    """Admission, workers and state of one model."""

    def __init__(
        self,
        settings: ServingProperties,
        new_session: NewSession,
        *,
        log: PoolLog,
        numbers: itertools.count[int],
        metrics: PrometheusMetrics,
    ) -> None:
        self.settings = settings
        self._log = log
        self.status, self.why_failed = WorkerGroupStatus.PENDING, ""
        self.groups = [WorkerGroup(place) for place in settings.places]
        self.adapters = LoraAdapters(settings, log.adapter_failed)
        self.queue = BatchQueue(settings.limits.job_queue_size)
        self._new_session = new_session
        self._numbers = numbers
        self._metrics = metrics
        self.read_in = 0.0  # seconds
        self.has_started = False
        self.starting: list[WorkerSession] = []
        self._failures = 0
        self._reported = LoadFailure.text
        self._settled = asyncio.Event()
        self._reviving = asyncio.Lock()
        self._growing = asyncio.Lock()
        self._extra_load: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()

    @property
    def slots(self) -> list[Slot]:
        return [slot for group in self.groups for slot in group.slots]

    @property
    def high(self) -> int:
        return sum(group.high for group in self.groups)

    @property
    def running(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.alive]

    @property
    def failed(self) -> bool:
        return self.status is WorkerGroupStatus.FAILED

    async def load(self) -> None:
        """Start the minimum number of workers, one after the other; `LoadFailure` stops it."""
        start = asyncio.get_running_loop().time()
        try:
            self.has_started = True
            await self._start()
        except LoadFailure as exc:
            self._reported = exc.text
            self._fail(str(exc))
            await self.stop()
            raise
        self.status = WorkerGroupStatus.READY
        self._settled.set()
        loading = asyncio.get_running_loop().time() - start
        self._metrics.loaded(self.settings.name, read=self.read_in, loading=loading)

    async def submit(self, job: QueuedRequest) -> None:
        """Let the job wait for a worker; `ErrorReply` when it may not."""
        name = self.settings.name
        if self.status is WorkerGroupStatus.PENDING:
            await self._wait_for_loading()
        if self.failed:
            raise error_responses.not_ready(name)
        if self.high == 0:
            raise error_responses.shut_down(name)
        if self._reviving.locked():
            async with self._reviving:
                pass  # a dead asynchronous worker is being replaced: no request is refused for that
            if self.failed:
                raise error_responses.not_ready(name)
        running, room = self.running, self.queue.capacity_left
        if not running or room < 1 or (room == 1 and all(slot.busy for slot in running)):
            await self._grow_now()
            raise error_responses.at_capacity(name)
        job.start = asyncio.get_running_loop().time()
        self.queue.put(job)
        if len(self.queue) > 2 * self.settings.limits.batch_size and len(running) < self.high:
            self._later(self._grow_now())

    async def scale(self, low: int, high: int) -> None:
        """New limits for each device, -1 for unchanged; `low` counts even if it is over `high`, as in DJLServing."""
        for group in self.groups:
            group.low = low if low >= 0 else group.low
            group.high = high if high >= 0 else group.high
            for slot in group.running[max(group.low, group.high) :]:
                await self._retire(slot)
            await self._fill(group, group.low)

    async def stop(self) -> None:
        """Stop every worker immediately; waiting jobs are refused."""
        for group in self.groups:
            group.high = 0
        if self._extra_load is not None:
            self._extra_load.cancel()
            await asyncio.wait({self._extra_load})
        for slot in self.slots:
            slot.alive = False
            if slot.task is not None:
                slot.task.cancel()
        await asyncio.gather(*(slot.session.stop() for slot in self.slots))
        self._refuse_waiting(error_responses.shut_down(self.settings.name))

    async def _start(self) -> None:
        if not self.settings.parallel_loading:
            for group in self.groups:
                await self._fill(group, group.low)
            return
        tasks = [asyncio.create_task(self._fill(group, group.low)) for group in self.groups]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _wait_for_loading(self) -> None:
        """As the real server: a request while the workers start starts one more, waits for it, and is refused."""
        if self.has_started and self._extra_load is None:
            self._extra_load = asyncio.create_task(self._one_more())
        await self._settled.wait()
        if self._extra_load is not None:
            await asyncio.wait({self._extra_load})
        if self.status is WorkerGroupStatus.FAILED:
            raise error_responses.not_loaded(self._reported)
        raise error_responses.at_capacity(self.settings.name)

    async def _one_more(self) -> None:
        group = self.groups[0]
        self._log.early_request()
        with contextlib.suppress(LoadFailure):  # then the first one fails too, and its failure is reported
            await self._add(group, temporary=True)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _grow_now(self) -> None:
        """Start one worker on the device with most room; as in the real server, one for each waiting request."""
        async with self._growing:
            now = asyncio.get_running_loop().time()
            group = max(self.groups, key=lambda one: one.capacity_left(now))
            if group.capacity_left(now) < 1 or self.status is not WorkerGroupStatus.READY:
                return
            self._log.growing(len(group.running) + 1)
            try:
                await self._fill(group, len(group.running) + 1)
            except LoadFailure as exc:
                self._log.did_not_grow(exc)

    async def _fill(self, group: WorkerGroup, needed: int) -> None:
        async with group.scaling:
            while len(group.running) < needed:
                await self._add(group, temporary=len(group.running) >= group.low)

    async def _add(self, group: WorkerGroup, *, temporary: bool) -> None:
        session = self._new_session(self.settings, group.place)
        self.starting.append(session)
        started = datetime.datetime.now(datetime.UTC)
        try:
            await session.start()
            await self.adapters.introduce_to(session)
        except BaseException:
            await session.stop()
            raise
        finally:
            self.starting.remove(session)
        slot = Slot(next(self._numbers), temporary, session, started)
        group.slots.append(slot)
        slot.task = asyncio.create_task(self._work(slot))
        self._log.started(slot, f"{group.place.device}")
        session.worker_lost.add_done_callback(lambda lost: self._died_alone(slot, lost))

    def _died_alone(self, slot: Slot, lost: asyncio.Future[WorkerFailed]) -> None:
        if slot.alive and not lost.cancelled():
            self._later(self._replace(slot, lost.result()))

    async def _replace(self, slot: Slot, failure: WorkerFailed) -> None:
        """A worker of the asynchronous engine died: unlike a synchronous one it is restarted immediately."""
        if slot.task is not None:
            slot.task.cancel()
        async with self._reviving:
            self._lose(slot, (), failure)
            await slot.session.stop()  # its child processes must free their memory first
            for group in self.groups:
                group.slots = [one for one in group.slots if one is not slot]
            await self._grow_now()

    async def _work(self, slot: Slot) -> None:
        """The loop of a worker: take jobs, answer them, until it is lost or idle for too long."""
        limits = self.settings.limits
        delay = limits.max_batch_delay if limits.batch_size > 1 else 0.0
        while slot.alive or slot.session.fetched:
            idle = limits.max_idle_time if slot.temporary else None
            jobs = slot.session.fetched or await self.queue.take(
                most=limits.batch_size, delay=delay, idle=idle
            )
            if not jobs:
                self._log.idle(slot, idle)
                await self._retire(slot)
                return
            await self._serve(slot, jobs)
            if len(self.running) > 1 and not self.settings.async_mode:
                # A worker in the middle of a stream leaves the next request to the others.
                await slot.session.finished()
        await slot.session.finished()
        await slot.session.stop()

    async def _serve(self, slot: Slot, jobs: Sequence[QueuedRequest]) -> None:
        slot.busy = True
        start = asyncio.get_running_loop().time()
        try:
            await slot.session.serve(jobs, self._following)
        except WorkerFailed as exc:
            self._lose(slot, jobs, exc)
        except asyncio.CancelledError:
            for job in (*jobs, *slot.session.fetched):
                job.settle(error_responses.shut_down(self.settings.name))
            raise
        finally:
            slot.busy = False
        if self._metrics.is_enabled:
            ended = asyncio.get_running_loop().time()
            for job in jobs:
                self._metrics.served(self.settings.name, queued=start - job.start, total=ended - job.start)

    def _following(self) -> QueuedRequest | None:
        """The next job, when this is the one worker to do it."""
        alone = self.settings.limits.batch_size == 1 and len(self.running) == 1
        return self.queue.next() if alone else None

    def _lose(self, slot: Slot, jobs: Sequence[QueuedRequest], failure: WorkerFailed) -> None:
        slot.leave()
        self.queue.put_back(slot.session.fetched)
        slot.session.fetched = ()
        self._failures += failure.counted
        failed = self._failures > self.settings.limits.retry_threshold and not self.settings.never_fails
        if failed:
            self._fail(failure.text)
        self._log.lost(slot, failure, failures=self._failures, failed=failed)
        for job in jobs:
            job.settle(failure.refusal)
        if not self.running:
            self._refuse_waiting(failure.refusal)

    def _fail(self, why: str) -> None:
        self.status = WorkerGroupStatus.FAILED
        self.why_failed = why
        self._settled.set()
        self._refuse_waiting(error_responses.not_ready(self.settings.name))

    def _refuse_waiting(self, refusal: ErrorReply) -> None:
        for job in self.queue.drain():
            job.settle(refusal)

    async def _retire(self, slot: Slot) -> None:
        slot.leave()
        if slot.task is not None and slot.task is not asyncio.current_task() and not slot.busy:
            slot.task.cancel()
        await slot.session.finished()
        if not slot.busy:
            await slot.session.stop()
