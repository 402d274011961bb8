"""One run from the runs of several machines that each sent a share of one load at the same time.

The requests themselves are merged, not histograms of them: figures that depend on the order or the time of the requests
(the time line, goodput, requests in flight, the dependence of neighbours) are those of the whole load, and exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lmi_deploy.bench.report_points import worst_client
from lmi_deploy.bench.request_records import RequestRecord, RunResult, RunSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRun:
    """`origin`: what the monotonic clock of that machine showed at the moment on which all machines agreed."""

    result: RunResult
    origin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRun:
    """`left_out`: requests that were sent after a machine had ended before its plan: the load was no longer whole."""

    result: RunResult
    left_out: int


def merged_run(machines: Sequence[MachineRun], whole: RunSettings) -> MergedRun:
    """Times are seconds since the agreed moment. What was sent before the last machine was warm is warm-up."""
    runs = [_since(machine) for machine in machines]
    warm_at = _warm_at(runs)
    kept_until = min((run.kept_until for run in runs if run.kept_until is not None), default=None)
    records = sorted((record for run in runs for record in run.records), key=lambda one: one.scheduled)
    kept = [one for one in records if kept_until is None or one.scheduled < kept_until]
    result = RunResult(
        settings=whole,
        records=tuple(
            replace(one, number=number, warmup=_is_warmup(one, warm_at)) for number, one in enumerate(kept)
        ),
        client=worst_client([run.client for run in runs]),
        began=min(run.began for run in runs),
        warm_at=warm_at,
        kept_until=kept_until,
        interrupted=any(run.interrupted for run in runs),
    )
    return MergedRun(result=result, left_out=len(records) - len(kept))


def _warm_at(runs: Sequence[RunResult]) -> float | None:
    """Of the last machine; of the first where none had a warm-up: then every request counts, also one that was sent
    before another machine began. None if the run of any ended in its warm-up.
    """
    known = [run.warm_at for run in runs if run.warm_at is not None]
    if len(known) < len(runs):
        return None
    return max(known) if any(record.warmup for run in runs for record in run.records) else min(known)


def _is_warmup(record: RequestRecord, warm_at: float | None) -> bool:
    """As on one machine: if the run ended in its warm-up, what there is counts."""
    return warm_at is not None and (record.warmup or record.sent < warm_at)


def _since(machine: MachineRun) -> RunResult:
    """On the common clock. Durations stay those of one machine's clock, to the precision of a float."""
    run, origin = machine.result, machine.origin
    return replace(
        run,
        records=tuple(_record_since(record, origin) for record in run.records),
        warm_at=None if run.warm_at is None else run.warm_at - origin,
        kept_until=None if run.kept_until is None else run.kept_until - origin,
    )


def _record_since(record: RequestRecord, origin: float) -> RequestRecord:
    return replace(
        record,
        scheduled=record.scheduled - origin,
        sent=record.sent - origin,
        end=record.end - origin,
        arrivals=tuple(at - origin for at in record.arrivals),
    )
