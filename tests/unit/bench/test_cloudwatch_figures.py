"""CloudWatch's figures in a report: bounded waiting, the right minutes, and words for what is missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lmi_deploy.bench.cloudwatch_figures import CloudWatchReader, LoadTime
from lmi_deploy.bench.html_report import to_html
from lmi_deploy.bench.report import Provenance, Report
from lmi_deploy.bench.report_file import from_json, to_json
from lmi_deploy.bench.report_points import point_of
from lmi_deploy.bench.report_tables import report_tables
from lmi_deploy.bench.text_reports import to_markdown
from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.errors import AccessError
from tests.support.bench_runs import BEGAN, closed_run
from tests.support.fakes import FakeClock

NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
WHOLE = RecentMetrics(
    requests=500,
    model_latency_p50_ms=80.0,
    model_latency_p99_ms=120.0,
    overhead_latency_p50_ms=4.0,
    overhead_latency_p99_ms=9.0,
    gpu_percent=71.0,
    gpu_memory_percent=90.0,
    memory_percent=20.0,
)


def report(loads: int = 1) -> Report:
    provenance = Provenance(tool="lmi", python="3.11", machine="test", cpus=2, clock="perf_counter")
    points = tuple(
        point_of(closed_run(0.1, concurrency=c, requests=50, factors={"concurrency": c}))
        for c in range(1, loads + 1)
    )
    return Report(name="chat", created=BEGAN, provenance=provenance, points=points)


def load(first: float, last: float, succeeded: int = 500) -> LoadTime:
    """Seconds after noon."""
    return LoadTime(
        began=NOON + timedelta(seconds=first), ended=NOON + timedelta(seconds=last), succeeded=succeeded
    )


class Service:
    """CloudWatch, which has the values only at `late`; `requested` is every window in minutes after noon."""

    def __init__(self, clock: FakeClock, *, late: float = 0.0, found: RecentMetrics = WHOLE) -> None:
        self.clock, self.late, self.found = clock, late, found
        self.requested: list[tuple[float, float]] = []

    def between(self, since: datetime, until: datetime) -> RecentMetrics:
        self.requested.append(((since - NOON) / timedelta(minutes=1), (until - NOON) / timedelta(minutes=1)))
        return self.found if self.clock.monotonic() >= self.late else RecentMetrics()


def read(service: Service, *times: LoadTime, wait: float = 180.0) -> Report:
    reader = CloudWatchReader(between=service.between, clock=service.clock, wait=wait)
    return reader.add(report(len(times)), times)


def test_figures_are_of_the_whole_minutes_within_the_load() -> None:
    service = Service(FakeClock())
    found = read(service, load(20, 200))
    assert service.requested == [(0, 4), (1, 3)]
    (point,) = found.points
    assert point.cloudwatch["minutes"] == 2
    assert point.cloudwatch["ModelLatency p99 (ms)"] == 120.0
    assert found.notes == ()


def test_short_load_gets_the_minutes_that_it_touches_and_the_report_says_so() -> None:
    service = Service(FakeClock())
    found = read(service, load(10, 50, 250), load(55, 80, 250))
    assert service.requested == [(0, 2), (0, 1), (0, 2)]
    names = ", ".join(point.name for point in found.points)
    assert found.notes == (f"CloudWatch counts by the minute, and no whole minute is within {names}",)


def test_late_values_are_waited_for() -> None:
    service = Service(FakeClock(), late=100)
    assert read(service, load(0, 120)).points[0].cloudwatch["requests"] == 500
    assert service.clock.passed == 105


def test_wait_is_bounded_and_the_report_says_what_is_missing() -> None:
    service = Service(FakeClock(), late=1000)
    found = read(service, load(0, 120))
    assert service.clock.passed == 180
    assert found.points[0].cloudwatch == {}
    assert "CloudWatch had 0 of 500 requests after 3 min" in found.notes[0]
    assert found.notes[1] == f"CloudWatch has no values of {found.points[0].name}"


def test_missing_metrics_are_listed() -> None:
    some = RecentMetrics(requests=500, model_latency_p50_ms=80.0, model_latency_p99_ms=99.0)
    (note,) = read(Service(FakeClock(), found=some), load(0, 120)).notes
    assert note.startswith("CloudWatch has no values of OverheadLatency p50 (ms), ")
    assert "GPU use (%)" in note


def test_refusal_leaves_the_report_as_it_is() -> None:
    def between(since: datetime, until: datetime) -> RecentMetrics:
        raise AccessError("metrics of chat: not authorized: cloudwatch:GetMetricData", hint="grant it")

    reader = CloudWatchReader(between=between, clock=FakeClock(), wait=180)
    found = reader.add(report(), [load(0, 120)])
    assert found.points == report().points
    assert found.notes == (
        "CloudWatch was not read: metrics of chat: not authorized: cloudwatch:GetMetricData",
    )


def test_ctrl_c_ends_only_the_wait() -> None:
    class Interrupted(FakeClock):
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    service = Service(Interrupted(), found=RecentMetrics(requests=3))
    found = read(service, load(0, 120))
    assert found.points[0].cloudwatch == {"minutes": 2.0, "requests": 3.0}
    assert "3 of 500 requests" in found.notes[0]
    assert "(interrupted)" in found.notes[0]


def test_every_form_of_the_report_has_them() -> None:
    found = read(Service(FakeClock()), load(0, 120))
    assert from_json(to_json(found), "bench.json").points[0].cloudwatch == found.points[0].cloudwatch
    tables = report_tables(found)
    for form in (to_markdown(found, tables), to_html(found, tables)):
        assert "OverheadLatency p99 (ms)" in form
