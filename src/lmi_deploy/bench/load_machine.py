"""One machine of a load job: it waits for loads, sends its share of each, and leaves what it measured in the bucket."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Final

from lmi_deploy.bench.load import Load
from lmi_deploy.bench.load_job_messages import (
    CLOCK,
    STOP,
    GivenLoad,
    LoadJobRequest,
    LoadMachineState,
    LoadStart,
    MachineProgress,
    MachineResult,
    load_key,
    machine_key,
    packed,
    packed_records,
    progress_key,
    ready_key,
    records_key,
    result_key,
    start_key,
    unpacked,
)
from lmi_deploy.bench.load_share import LoadShare
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.request_records import RunResult
from lmi_deploy.bench.request_target import RequestTarget
from lmi_deploy.bench.run_limits import RunProgress
from lmi_deploy.bench.run_sequence import Measurement, provenance, run_load
from lmi_deploy.bench.shared_clock import ClockOffset, narrowed
from lmi_deploy.errors import Interrupted, LmiError, NotFound, Overdue
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.object_store import ObjectStore

_POLL: Final = 0.5
_MOST_LOOKS: Final = 12
"""At S3's clock: each halves what is unknown of it."""
_REPORT: Final = 3.0
"""Seconds between two notes of the progress. Each takes some milliseconds of the client that is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMachine:
    """`prefix` is that of the job's objects in `store`. `wall` is this machine's clock, which the report compares."""

    request: LoadJobRequest
    requests: Sequence[BenchRequest]
    target: RequestTarget
    share: LoadShare
    store: ObjectStore
    prefix: str
    clock: Clock
    say: Callable[[str], None] = lambda text: None
    wall: Callable[[], float] = time.time

    def run(self) -> int:
        """Until lmi has no more load; the number of loads. Overdue if no lmi waits for this machine any more,
        Interrupted if lmi has stopped it.
        """
        offset, number = self._offset(), self.share.number
        state = LoadMachineState(
            number=number, provenance=provenance({}), clock_low=offset.low, clock_high=offset.high
        )
        self.say(f"machine {number + 1} of {self.share.machines}: {state.words}")
        self._put(machine_key(number), packed(state))
        for load in count():
            given = unpacked(GivenLoad, self._await(load_key(load)), load_key(load))
            if given.load is None:
                return load
            self._send(load, given.load, offset)
        raise AssertionError("there is always another number")

    def _send(self, number: int, load: Load, offset: ClockOffset) -> None:
        start = _Beginning(machine=self, load=number, offset=offset)
        reporter = _Reporter(machine=self, load=number)
        measurement = Measurement(
            name=self.request.endpoint,
            target=self.target,
            requests=self.requests,
            form=self.request.form,
            loads=(load,),
            limits=self.request.limits,
            timeout=self.request.timeout,
            seed=self.request.seed,
            self_test=self.request.self_test,
            share=self.share,
            ready=start.wait,
            is_stopped=reporter.stopped.is_set,
            wall=self.wall,
        )
        with reporter.running():
            result, ended = run_load(measurement, load, number, reporter.note)
        self.say(f"{result.settings.load.words}: {ended}, {len(result.records)} requests")
        self._keep(number, result, ended, start)

    def _keep(self, load: int, result: RunResult, ended: str, start: _Beginning) -> None:
        """The requests first: who finds the rest finds them, too."""
        machine = self.share.number
        self._put(records_key(load, machine), packed_records(result.records))
        found = MachineResult(
            client=result.client,
            began=result.began,
            warm_at=result.warm_at,
            kept_until=result.kept_until,
            interrupted=result.interrupted,
            ended=ended,
            origin=start.origin,
            late=start.late,
            load=result.settings.load,
        )
        self._put(result_key(load, machine), packed(found))

    def _offset(self) -> ClockOffset:
        """NotFound if the job's objects were deleted: the job is over."""
        found: ClockOffset | None = None
        for _ in range(_MOST_LOOKS):
            if found is not None:
                if found.is_good_enough:
                    break
                self.clock.sleep(max(0.0, found.next_look(self.wall()) - self.wall()))
            sent = self.wall()
            response = self.store.get(self.prefix + CLOCK)
            received = self.wall()
            if response is None:
                raise NotFound(f"{self.prefix}: the job's objects were deleted", hint="its lmi has ended")
            if response[1].as_of:
                second = datetime.fromisoformat(response[1].as_of).timestamp()
                found = narrowed(found, second=second, sent=sent, received=received)
        # A server without dates: then the machine's own clock is all there is.
        return found or ClockOffset(low=0.0, high=0.0)

    def _await(self, key: str) -> bytes:
        began = self.clock.monotonic()
        while (found := self.store.get(self.prefix + key)) is None:
            if self.store.get(self.prefix + STOP) is not None:
                raise Interrupted("lmi has stopped the job", hint="it was interrupted")
            if self.clock.monotonic() - began > self.request.patience:
                raise Overdue(
                    f"no word from lmi for {self.request.patience:g} s: no process waits for this machine any more",
                    hint="run `lmi bench` again",
                )
            self.clock.sleep(_POLL)
        return found[0]

    def _put(self, key: str, content: bytes) -> None:
        self.store.put(self.prefix + key, content)


@dataclass(slots=True, kw_only=True)
class _Beginning:
    """The moment at which all machines begin: `origin` on this one's monotonic clock, `late` seconds before it did."""

    machine: LoadMachine
    load: int
    offset: ClockOffset
    origin: float = 0.0
    late: float = 0.0

    def wait(self) -> None:
        machine = self.machine
        machine._put(ready_key(self.load, machine.share.number), b"{}")
        start = unpacked(LoadStart, machine._await(start_key(self.load)), start_key(self.load))
        ahead = start.at - self.offset.seconds - machine.wall()
        self.origin, self.late = time.perf_counter() + ahead, max(0.0, -ahead)
        if ahead > 0:
            machine.clock.sleep(ahead)


@dataclass(slots=True, kw_only=True)
class _Reporter:
    """Beside the load, in a thread: writes how far it is, and reads whether to stop."""

    machine: LoadMachine
    load: int
    stopped: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)
    _latest: RunProgress | None = None

    def note(self, progress: RunProgress) -> None:
        self._latest = progress

    def running(self) -> _ReporterThread:
        return _ReporterThread(self)

    def report(self) -> None:
        """Until the load has ended. A failure is no reason to stop what is measured."""
        while not self._ended.wait(_REPORT):
            try:
                self._report_once()
            except LmiError as error:
                self.machine.say(f"the progress is not written: {error.message}")

    def _report_once(self) -> None:
        machine, latest = self.machine, self._latest
        if latest is not None:
            fields = {name: getattr(latest, name) for name in RunProgress.__slots__}
            progress = MachineProgress(load=self.load, **fields)
            machine._put(progress_key(machine.share.number), packed(progress))
        if machine.store.get(machine.prefix + STOP) is not None:
            self.stopped.set()


class _ReporterThread:
    def __init__(self, reporter: _Reporter) -> None:
        self._reporter = reporter
        self._thread = threading.Thread(target=reporter.report, daemon=True, name="progress")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *raised: object) -> None:
        self._reporter._ended.set()
        self._thread.join()
