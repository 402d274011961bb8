"""Loads that the machines of a job send: what they get, when they begin, and one report of what they measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from lmi_deploy.bench.load import Load
from lmi_deploy.bench.load_generator import Watch
from lmi_deploy.bench.load_job_messages import (
    CLOCK,
    REQUEST,
    REQUESTS,
    STOP,
    GivenLoad,
    LoadJobRequest,
    LoadMachineState,
    LoadStart,
    MachineProgress,
    MachineResult,
    load_key,
    machine_key,
    machine_run,
    packed,
    packed_requests,
    progress_key,
    ready_key,
    records_key,
    result_key,
    start_key,
    summed,
    unpacked,
)
from lmi_deploy.bench.load_share import require_divisible
from lmi_deploy.bench.merged_runs import merged_run
from lmi_deploy.bench.report import Check, LoadPoint, Report
from lmi_deploy.bench.report_points import point_of
from lmi_deploy.bench.run_sequence import (
    MeasuredLoad,
    Measurement,
    measured_report,
    run_settings,
    with_change,
)
from lmi_deploy.domain.events import Event, Notice, Progress
from lmi_deploy.domain.number_text import counted
from lmi_deploy.errors import DeployFailed, Interrupted, LmiError, Overdue
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.load_machines import LoadMachines

START_SECONDS: Final = 300
"""Assumed for the machines to start, in the estimate of the cost: a processing job is billed from then on."""
AROUND_SECONDS: Final = 60.0
"""Of each load, for its start and for writing what was measured."""
_LONGEST_START: Final = 1800.0
_POLL: Final = 1.0
_LOOK: Final = 10.0
"""Seconds between two looks at the job itself."""
_LEAD: Final = 3.0
"""Seconds from the decision when a load begins: every machine has read it by then."""
_PREPARING: Final = 300.0
_AFTER_STOP: Final = 30.0
_LATE: Final = 0.25
"""Seconds between the machines from which on they did not begin together."""
_PRINTED: Final = 30


@dataclass(slots=True, kw_only=True)
class LoadJob:
    """One job for all loads of a measurement."""

    measurement: Measurement
    request: LoadJobRequest
    machines: LoadMachines
    clock: Clock
    show: Callable[[Event], None] = lambda event: None
    left: str = ""
    """Why the job could not be deleted; empty if it is deleted."""
    _looked: float = 0.0
    _states: dict[int, LoadMachineState] = field(default_factory=dict)
    _notes: list[str] = field(default_factory=list)

    @property
    def longest(self) -> float:
        """Seconds that the job may take from when its machines run."""
        loads = self.measurement.most_loads
        return self.measurement.longest + loads * AROUND_SECONDS

    def require_divisible(self) -> None:
        """UsageRefused if the machines cannot divide what is asked for; nothing is started yet."""
        first = self.measurement.next_load(())
        loads = self.measurement.loads if self.measurement.search is None else filter(None, (first,))
        for load in loads:
            require_divisible(load, self.measurement.limits, self.machines.count)

    def measure(
        self, watch: Watch, notify: Callable[[MeasuredLoad], None], show: Callable[[Event], None]
    ) -> Report:
        """`show` gets what happens outside of the loads. Ctrl-C ends the job; the report has what was measured until
        then. The job and its objects are always deleted. DeployFailed, with its last lines, if it ended without any
        result.
        """
        self.show = show
        points: list[LoadPoint] = []
        interrupted = False
        try:
            self._start()
            while not interrupted and (load := self.measurement.next_load(points)) is not None:
                measured = self._measure_load(load, len(points), watch)
                points.append(measured.point)
                notify(measured)
                interrupted = measured.result.interrupted
            if not interrupted:
                self._put(load_key(len(points)), GivenLoad(load=None))
        except KeyboardInterrupt:
            if not points:
                raise
            interrupted = True
        except LmiError as error:
            if not points or isinstance(error, Interrupted):
                raise
            interrupted = True
            self._notes.append(f"the job ended before its last load: {error.message}")
        finally:
            self._end()
        return self._report(points, interrupted=interrupted)

    def _end(self) -> None:
        """What was measured is not lost if the job cannot be deleted."""
        try:
            self._show(self.machines.end())
        except LmiError as error:
            self.left = f"the job that sent the load: {error.message}"
            self.show(Notice(text=f"not deleted: {self.left}"))
            self._notes.append(f"not deleted: {self.left}; `lmi gc` deletes it")

    def _start(self) -> None:
        files = {
            REQUEST: packed(self.request),
            REQUESTS: packed_requests(self.measurement.requests),
            CLOCK: b"S3's clock\n",
        }
        self._show(self.machines.start(files, seconds=self.longest))
        count = self.machines.count
        keys = [machine_key(number) for number in range(count)]
        self._await(keys, _LONGEST_START, f"waiting for {counted(count, 'machine')}")
        for number, key in enumerate(keys):
            self._states[number] = unpacked(LoadMachineState, self._get(key), key)
        self.show(Notice(text=f"{counted(count, 'machine')} ready: {self._skew_words()}"))

    def _measure_load(self, load: Load, number: int, watch: Watch) -> MeasuredLoad:
        count, before = self.machines.count, self.measurement.server()
        self._put(load_key(number), GivenLoad(load=load))
        self._await([ready_key(number, each) for each in range(count)], _PREPARING, "preparing the load")
        self._put(start_key(number), LoadStart(at=self._store_time() + _LEAD))
        results = self._results(number, watch)
        runs = [machine_run(one, self._get(key), key) for key, one in results.items()]
        merged = merged_run(runs, run_settings(self.measurement, load))
        result = with_change(merged.result, before, self.measurement)
        if len(results) < count:
            result = replace(result, interrupted=True)
            self._notes.append(
                f"{load.words}: only {len(results)} of {count} machines have written their figures"
            )
        if merged.left_out:
            self._notes.append(
                f"{load.words}: {counted(merged.left_out, 'request')} left out: sent after a machine had ended"
            )
        point = point_of(
            result, confidence=self.measurement.confidence, objectives=self.measurement.objectives
        )
        checks = (*point.checks, self._together([*results.values()]))
        ended = " / ".join(dict.fromkeys(one.ended for one in results.values()))
        return MeasuredLoad(result=result, point=replace(point, checks=checks), ended=ended)

    def _results(self, number: int, watch: Watch) -> dict[str, MachineResult]:
        """By the key of the machine's requests. After Ctrl-C those that come soon; KeyboardInterrupt if none does."""
        count = self.machines.count
        keys = [result_key(number, each) for each in range(count)]
        longest = self.measurement.limits.longest + AROUND_SECONDS + _LEAD
        try:
            self._await(keys, longest, "", lambda: self._tell(number, watch))
        except KeyboardInterrupt:
            self.show(Notice(text="interrupted: the machines stop, and write what they have measured"))
            self.machines.store.put(self.machines.prefix + STOP, b"stop\n")
            if not self._await(keys, _AFTER_STOP, "the machines are stopping", is_needed=False):
                raise
        found = {each: self._found(result_key(number, each)) for each in range(count)}
        return {
            records_key(number, each): unpacked(MachineResult, content, result_key(number, each))
            for each, content in found.items()
            if content is not None
        }

    def _tell(self, number: int, watch: Watch) -> None:
        """The progress of all machines as that of one."""
        found = [self._found(progress_key(each)) for each in range(self.machines.count)]
        notes = [unpacked(MachineProgress, one, "progress") for one in found if one is not None]
        current = [one for one in notes if one.load == number]
        if current:
            watch(summed(current))

    def _together(self, results: Sequence[MachineResult]) -> Check:
        """Whether the machines sent at the same time: else the load was not the one that was asked for."""
        late = max(one.late for one in results)
        error = max((one.clock_high - one.clock_low) / 2 for one in self._states.values())
        words = f"{self._skew_words()}; the last machine began {late * 1000:.0f} ms after the agreed time"
        return Check(name="machines", state="warning" if max(late, error) > _LATE else "ok", text=words)

    def _skew_words(self) -> str:
        middle = [(one.clock_low + one.clock_high) / 2 for one in self._states.values()]
        error = max((one.clock_high - one.clock_low) / 2 for one in self._states.values())
        return (
            f"the clocks of the machines differ by {(max(middle) - min(middle)) * 1000:.0f} ms "
            f"(by S3's clock, ± {error * 1000:.0f} ms), which is corrected"
        )

    def _report(self, points: Sequence[LoadPoint], *, interrupted: bool) -> Report:
        report = measured_report(self.measurement, points, interrupted=interrupted)
        machines = {f"machine {number + 1}": state.words for number, state in sorted(self._states.items())}
        sent = {
            "load sent by": f"{self.machines.count} x {self.machines.instance} (processing job)",
            **self.machines.details,
            **machines,
        }
        provenance = replace(report.provenance, details={**report.provenance.details, **sent})
        return replace(report, provenance=provenance, notes=(*report.notes, *self._notes))

    def _await(
        self,
        keys: Sequence[str],
        limit: float,
        what: str,
        each: Callable[[], None] = lambda: None,
        *,
        is_needed: bool = True,
    ) -> int:
        """Until all of these objects exist; how many do. Unless they are needed, Overdue and the job's end are not
        raised.
        """
        began, folder = self.clock.monotonic(), keys[0].rpartition("/")[0] + "/"
        while True:
            written = {stored.key for stored in self.machines.store.list(self.machines.prefix + folder)}
            found = sum(self.machines.prefix + key in written for key in keys)
            waited = self.clock.monotonic() - began
            if found == len(keys) or (not is_needed and waited > limit):
                return found
            if is_needed:
                self._require_running(f"{found} of {len(keys)} have answered")
                if waited > limit:
                    raise Overdue(
                        f"{what or 'the load'}: {found} of {len(keys)} machines answered in {limit:.0f} s",
                        hint="run the same command again; the job was stopped",
                    )
            each()
            if what:
                note = f"{what}: {found} of {len(keys)}"
                self.show(Progress(key="bench", done=round(waited, 1), total=None, unit="seconds", note=note))
            self.clock.sleep(_POLL)

    def _require_running(self, state: str) -> None:
        now = self.clock.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked, job = now, self.machines.observed()
        if job is not None and job.is_running:
            return
        why = (job.message or job.reason or "no reason given") if job else "it was deleted"
        raise DeployFailed(
            f"the job that sends the load ended {job.status if job else ''}: {why} ({state})",
            hint="the last lines of its machines are above; correct the cause, and run the same command again",
            details=self.machines.printed()[-_PRINTED:],
        )

    def _store_time(self) -> float:
        """S3's own time, to a second: it needs only to lie ahead for all machines."""
        found = self.machines.store.get(self.machines.prefix + CLOCK)
        as_of = found[1].as_of if found else ""
        return datetime.fromisoformat(as_of).timestamp() + 1 if as_of else datetime.now(UTC).timestamp()

    def _get(self, key: str) -> bytes:
        found = self._found(key)
        if found is None:
            raise DeployFailed(f"{key}: deleted during the run", hint="run the same command again")
        return found

    def _found(self, key: str) -> bytes | None:
        found = self.machines.store.get(self.machines.prefix + key)
        return None if found is None else found[0]

    def _put(self, key: str, message: object) -> None:
        self.machines.store.put(self.machines.prefix + key, packed(message))

    def _show(self, events: Iterator[Event]) -> None:
        for event in events:
            self.show(event)
