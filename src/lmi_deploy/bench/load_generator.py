"""Keeps up a load, open or closed, until its limits are reached, and hands over a record for each request."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from lmi_deploy.bench.client_health import HealthProbe, p99
from lmi_deploy.bench.load import Ramp
from lmi_deploy.bench.report import ClientFigures
from lmi_deploy.bench.request_records import RequestRecord, RunResult, RunSettings
from lmi_deploy.bench.request_sender import RequestSender
from lmi_deploy.bench.request_target import EncodedRequest, RequestForm, RequestTarget
from lmi_deploy.bench.response_reader import ResponseReader, UnreadResponse
from lmi_deploy.bench.response_reading import RawResponse
from lmi_deploy.bench.run_limits import RunLimits, RunPhases, RunProgress
from lmi_deploy.errors import LmiError

_TICK: Final = 0.1
_LATE: Final = 1.0
"""Seconds for requests that run when the user interrupts: what has not ended by then is not counted."""

Watch = Callable[[RunProgress], None]


class LoadGenerator:
    """One run, in one event loop. `stop` may be called from a signal handler of the loop."""

    def __init__(
        self,
        settings: RunSettings,
        target: RequestTarget,
        requests: Iterator[EncodedRequest],
        *,
        form: RequestForm,
        limits: RunLimits,
        clients_at: Callable[[float], int] | None = None,
    ) -> None:
        """`clients_at`: of a closed loop, so many seconds after the warm-up; by default those of `settings`."""
        self._clients_at = clients_at or (lambda at: int(settings.load.level(at)))
        self._settings, self._limits = settings, limits
        self._requests = requests
        self._reader = ResponseReader(target, form, self._failed_late)
        self._stopped = asyncio.Event()
        self._fatal: LmiError | None = None
        self._interrupted = self._has_ended_trace = False
        self._stopped_at: float | None = None
        self._clients = settings.load.concurrency or 1
        self.stopped_because = ""

    async def run(
        self,
        sender: RequestSender,
        arrivals: Iterator[float] | None,
        watch: Watch = lambda progress: None,
        probe: HealthProbe | None = None,
    ) -> RunResult:
        """`arrivals`: the schedule of an open loop. LmiError if no request could be sent at all."""
        began = datetime.now(UTC).isoformat(timespec="seconds")
        probe = probe or HealthProbe()
        probe.start()
        self._began, resent = time.perf_counter(), sender.resent
        self._phases = RunPhases(self._limits, self._settings.load.concurrency or 0, self._began)
        reading = asyncio.create_task(self._reader.run())
        schedule: asyncio.Task[None] | None = None
        if arrivals is None:
            self._send_next_of_all(sender)
            if self._settings.load.ramp:
                schedule = asyncio.create_task(self._climb(sender, self._settings.load.ramp))
        else:
            schedule = asyncio.create_task(self._schedule(sender, arrivals))
        await self._until_stopped(probe, watch)
        health = probe.stop()
        if schedule is not None:
            schedule.cancel()
        await self._wait_for_the_rest(sender)
        reading.cancel()
        await self._reader.read_rest(lambda: watch(self._phases.progress(time.perf_counter())))
        if self._fatal is not None:
            raise self._fatal
        return self._result(began, replace(health, resent=sender.resent - resent))

    def warm_at(self) -> float | None:
        """Seconds from the start of the run until its warm-up ended; None: it has not."""
        return self._phases.warm_since - self._began if self._phases.is_warm else None

    def stop(self, why: str, *, interrupted: bool = False) -> None:
        """No more requests."""
        if not self._stopped.is_set():
            self.stopped_because, self._stopped_at = why, time.perf_counter()
            self._stopped.set()
        self._interrupted = self._interrupted or interrupted

    async def _until_stopped(self, probe: HealthProbe, watch: Watch) -> None:
        """Limits of time hold also if no response ever comes."""
        was_warm = self._phases.is_warm
        while not self._stopped.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), _TICK)
            self._may_begin()
            if self._phases.is_warm and not was_warm:
                was_warm = True
                probe.restart()
            watch(self._phases.progress(time.perf_counter()))

    async def _wait_for_the_rest(self, sender: RequestSender) -> None:
        """Requests that take longer are cancelled: they are in no figure."""
        deadline = time.perf_counter() + self._limits.seconds_after
        while self._phases.in_flight and time.perf_counter() < deadline:
            if self._interrupted:
                deadline = min(deadline, time.perf_counter() + _LATE)
            await asyncio.sleep(_TICK)
        sender.cancel()

    def _may_begin(self) -> bool:
        why = self._phases.may_begin(time.perf_counter())
        if why:
            self.stop(why)
        return not self._stopped.is_set()

    def _send_next(self, sender: RequestSender) -> None:
        """One client of a closed loop: when its response is there, it sends again."""
        if self._phases.in_flight < self._clients and self._may_begin():
            self._send(sender, time.perf_counter(), is_warmup=self._phases.begin(), is_loop=True)

    def _send_next_of_all(self, sender: RequestSender) -> None:
        """Of those that have no request running."""
        for _ in range(self._clients - self._phases.in_flight):
            self._send_next(sender)

    async def _climb(self, sender: RequestSender, ramp: Ramp) -> None:
        """Change the number of clients step by step; one that is too many ends with its response."""
        while not self._phases.is_warm:
            await asyncio.sleep(_TICK / 10)
        for number in range(1, ramp.steps):
            at = number * ramp.seconds / ramp.steps
            await asyncio.sleep(max(0.0, self._phases.warm_since + at - time.perf_counter()))
            self._clients = self._clients_at((number + 0.5) * ramp.seconds / ramp.steps)
            self._send_next_of_all(sender)

    async def _schedule(self, sender: RequestSender, arrivals: Iterator[float]) -> None:
        for at in arrivals:
            # uvloop rounds a delay to a millisecond: a request sent before its time would have a latency below zero.
            while (delay := self._began + at - time.perf_counter()) > 0:
                await asyncio.sleep(delay)
            if not self._may_begin():
                return
            self._send(sender, self._began + at, is_warmup=self._phases.begin(), is_loop=False)
        self._has_ended_trace = True
        self.stop("the trace has ended")

    def _send(self, sender: RequestSender, scheduled: float, *, is_warmup: bool, is_loop: bool) -> None:
        request = next(self._requests)

        def ended(raw: RawResponse | LmiError) -> None:
            self._phases.in_flight -= 1
            if isinstance(raw, LmiError):
                self._fatal = raw
                self.stop(str(raw))
                return
            self._keep(raw, request, is_warmup=is_warmup)
            if is_loop:
                self._send_next(sender)

        sender.send(request.http, scheduled, ended)

    def _keep(self, raw: RawResponse, request: EncodedRequest, *, is_warmup: bool) -> None:
        response = UnreadResponse(raw, request, is_warmup)
        if not raw.has_failed:
            self._reader.add(response)
            self._phases.end(raw.end - raw.sent, time.perf_counter())
            return
        record = self._reader.read_now(response)
        if self._phases.end(None, time.perf_counter()):
            self._stop_for_errors(record)

    def _failed_late(self, record: RequestRecord) -> None:
        """It was counted as a success when it arrived."""
        if self._phases.fail():
            self._stop_for_errors(record)

    def _stop_for_errors(self, record: RequestRecord) -> None:
        failed, done = self._phases.failed, self._phases.completed
        self.stop(f"{failed} of {done} requests failed ({record.error} {record.detail})".replace("\n", " "))

    def _result(self, began: str, health: ClientFigures) -> RunResult:
        early = self._reader.early_ends()
        records = sorted(
            (self._checked(one, early) for one in self._reader.records), key=lambda one: one.scheduled
        )
        lags = [one.sent - one.scheduled for one in records if not one.warmup]
        is_open = self._settings.load.kind == "open"
        return RunResult(
            settings=self._settings,
            records=tuple(replace(one, number=number) for number, one in enumerate(records)),
            client=replace(health, send_lag_p99=p99(lags) if is_open else None),
            began=began,
            warm_at=self._phases.warm_since if self._phases.is_warm else None,
            kept_until=None if is_open and self._has_sent_all() else self._stopped_at,
            interrupted=self._interrupted,
        )

    def _has_sent_all(self) -> bool:
        """Unless something else ended the run."""
        return self._has_ended_trace or self._phases.has_sent_all

    def _checked(self, record: RequestRecord, early: frozenset[int]) -> RequestRecord:
        """A stream that ends without a reason, where others have one, ended early: it failed, and was not fast."""
        if not self._phases.is_warm:  # the run ended before it: what there is counts
            record = replace(record, warmup=False)
        if record.number not in early:
            return record
        detail = "the stream ended without a finish reason"
        return replace(record, error="truncated", detail=detail, truncated=True)
