"""What CloudWatch measured during each load, beside the client's own figures. Its values come minutes late."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from lmi_deploy.bench.report import LoadPoint, Report
from lmi_deploy.bench.request_records import RunResult
from lmi_deploy.domain.number_text import seconds_text
from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.errors import LmiError
from lmi_deploy.ports.clock import Clock

_PAUSE: Final = 15.0
"""Seconds between two reads."""
_MINUTE: Final = timedelta(minutes=1)
COLUMNS: Final = {
    "requests": "requests",
    "model_latency_p50_ms": "ModelLatency p50 (ms)",
    "model_latency_p99_ms": "ModelLatency p99 (ms)",
    "overhead_latency_p50_ms": "OverheadLatency p50 (ms)",
    "overhead_latency_p99_ms": "OverheadLatency p99 (ms)",
    "gpu_percent": "GPU use (%)",
    "gpu_memory_percent": "GPU memory (%)",
    "memory_percent": "memory (%)",
}
"""By the field of RecentMetrics. In a report after the number of minutes."""
Between = Callable[[datetime, datetime], RecentMetrics]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTime:
    """When a load ran, by the wall clock, and how many requests succeeded, the warm-up's included."""

    began: datetime
    ended: datetime
    succeeded: int

    @property
    def minutes(self) -> tuple[datetime, datetime]:
        """The whole minutes within it: no other load is in their values. If there is none, those that it touches."""
        within = _up(self.began), _down(self.ended)
        return within if self.is_whole else (_down(self.began), _up(self.ended))

    @property
    def is_whole(self) -> bool:
        return _up(self.began) < _down(self.ended)


def load_time(run: RunResult, ended: datetime) -> LoadTime:
    succeeded = sum(not record.error for record in run.records)
    return LoadTime(began=datetime.fromisoformat(run.began), ended=ended, succeeded=succeeded)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudWatchReader:
    """`between` is the port's, of the endpoint. `wait`: the most seconds until CloudWatch has the run's requests."""

    between: Between
    clock: Clock
    wait: float

    def add(self, report: Report, times: Sequence[LoadTime]) -> Report:
        """The report with the figures that CloudWatch has by then, and notes of what it lacks. No error is raised:
        the client's figures stand without them. Ctrl-C ends the waiting.
        """
        late = ""
        try:
            late = self._await(times)
            points = [
                replace(point, cloudwatch=figures(self.between(*time.minutes), time))
                for point, time in zip(report.points, times, strict=True)
            ]
        except LmiError as error:
            return _noted(report, [f"CloudWatch was not read: {error.message}"])
        return _noted(
            replace(report, points=tuple(points)), [late, *_mixed(points, times), *_missing(points)]
        )

    def _await(self, times: Sequence[LoadTime]) -> str:
        """Why its figures are incomplete; empty if it has all requests."""
        sent, begin = sum(time.succeeded for time in times), self.clock.monotonic()
        while True:
            found = self.between(_down(times[0].began), _up(times[-1].ended)).requests or 0
            left = self.wait - (self.clock.monotonic() - begin)
            if found >= sent:
                return ""
            why = f"CloudWatch had {found:,} of {sent:,} requests after {seconds_text(self.wait - left)}"
            if left <= 0:
                return f"{why}: its figures are incomplete"
            try:
                self.clock.sleep(min(_PAUSE, left))
            except KeyboardInterrupt:
                return f"{why} (interrupted): its figures are incomplete"


def figures(found: RecentMetrics, time: LoadTime) -> dict[str, float]:
    """As in a report; empty if CloudWatch has nothing."""
    values = {name: getattr(found, field) for field, name in COLUMNS.items()}
    existing = {name: float(value) for name, value in values.items() if value is not None}
    first, last = time.minutes
    return {"minutes": float((last - first) // _MINUTE), **existing} if existing else {}


def _mixed(points: Sequence[LoadPoint], times: Sequence[LoadTime]) -> Iterator[str]:
    """Loads whose minutes may contain other requests, too."""
    loads = zip(points, times, strict=True)
    if short := [point.name for point, time in loads if point.cloudwatch and not time.is_whole]:
        yield f"CloudWatch counts by the minute, and no whole minute is within {', '.join(short)}"


def _missing(points: Sequence[LoadPoint]) -> Iterator[str]:
    empty = [point.name for point in points if not point.cloudwatch]
    if empty:
        yield f"CloudWatch has no values of {', '.join(empty)}"
    seen = {name for point in points for name in point.cloudwatch}
    if seen and (absent := [name for name in COLUMNS.values() if name not in seen]):
        yield f"CloudWatch has no values of {', '.join(absent)} in these minutes"


def _noted(report: Report, notes: Sequence[str]) -> Report:
    return replace(report, notes=(*report.notes, *filter(None, notes)))


def _down(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def _up(moment: datetime) -> datetime:
    down = _down(moment)
    return down if down == moment else down + _MINUTE
