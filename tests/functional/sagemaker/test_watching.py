"""`lmi status` shows what CloudWatch measured."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.errors import AccessError, CloudError
from lmi_deploy.ui.text_view import HumanView
from tests.support.cloud_app import CloudApp
from tests.support.fakes import FakeClock
from tests.support.local_app import Terminal

BUSY = RecentMetrics(
    requests=1204,
    errors_4xx=3,
    errors_5xx=1,
    model_latency_p50_ms=812.4,
    model_latency_p99_ms=2310.0,
    overhead_latency_p50_ms=4.2,
    overhead_latency_p99_ms=18.0,
    gpu_percent=71.0,
    gpu_memory_percent=91.2,
    memory_percent=24.0,
)


def test_status_shows_the_last_hour(app: CloudApp) -> None:
    app.up()
    app.cloud.metrics.found["tiny"] = BUSY
    shown = app.lmi("status", "tiny")
    assert shown.code == 0
    assert "traffic  1,204 requests in the last hour, 3 with a 4xx, 1 with a 5xx" in shown.out
    assert "latency  model p50 812 ms, p99 2,310 ms, overhead p50 4.2 ms, p99 18 ms" in shown.out
    assert "use      GPU 71 % on average, GPU memory 91 % at most, memory 24 % at most" in shown.out
    assert app.lmi("status", "tiny", "--json").result["metrics"]["model_latency_p99_ms"] == 2310.0


def test_status_without_requests_says_so(app: CloudApp) -> None:
    app.up()
    assert "CloudWatch has no requests of the last hour" in app.lmi("status", "tiny").out


def test_status_without_the_permission_still_shows_the_state(app: CloudApp) -> None:
    app.up()
    refusal = AccessError("metrics of tiny: not authorized: cloudwatch:GetMetricData", hint="grant it")
    app.cloud.account_state.failures.before["recent"] = [refusal]
    shown = app.lmi("status", "tiny")
    assert shown.code == 0
    assert "in-step" in shown.out
    assert "traffic  unknown: metrics of tiny: not authorized: cloudwatch:GetMetricData" in shown.out


def test_absent_deployment_is_not_measured(app: CloudApp) -> None:
    assert app.lmi("status", "tiny").code == 4
    assert "recent" not in app.cloud.account_state.calls


class Pauses(FakeClock):
    """Does one thing in each pause, and ends the command in the one after the last."""

    def __init__(self, *done: Callable[[], object]) -> None:
        super().__init__()
        self.left = list(done)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if not self.left:
            raise KeyboardInterrupt
        self.left.pop(0)()


def test_watching_adds_a_line_for_each_read_until_ctrl_c(app: CloudApp) -> None:
    app.up()
    app.cloud.metrics.found["tiny"] = BUSY
    app.clock = Pauses(app.cloud.metrics.found.clear)
    shown = app.lmi("status", "tiny", "--watch", "--every", "10s")
    first, second = shown.out.splitlines()
    assert shown.code == 0
    assert "  tiny: in-step; InService, 1 of 1 instances; 1,204 requests in the last hour" in first
    assert "CloudWatch has no requests" in second
    assert app.clock.passed == 20


def test_watching_as_json(app: CloudApp) -> None:
    app.up()
    app.clock = Pauses(lambda: None)
    events = app.lmi("status", "tiny", "--watch", "--json").lines
    assert [one["event"] for one in events] == ["row", "row", "result"]
    assert events[0]["read"] < events[1]["read"]
    assert events[-1]["standing"] == "in-step"


def test_watching_continues_after_a_read_that_failed(app: CloudApp) -> None:
    app.up()
    broken = CloudError("SageMaker: the connection broke", hint="run it again")
    app.clock = Pauses(
        lambda: app.cloud.account_state.failures.before.update(endpoint=[broken]), lambda: None
    )
    shown = app.lmi("status", "tiny", "--watch")
    assert shown.err.strip() == "not read: SageMaker: the connection broke; the next read follows"
    assert len(shown.out.splitlines()) == 2
    assert shown.code == 0


def test_every_is_checked(app: CloudApp) -> None:
    assert "--every needs --watch" in app.lmi("status", "tiny", "--every", "10s").err
    short = app.lmi("status", "tiny", "--watch", "--every", "1s")
    assert (short.code, "5" in short.err) == (2, True), short.err


def test_terminal_is_refreshed_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal(io.BytesIO(), encoding="utf-8", write_through=True)
    HumanView(out, io.StringIO(), live=False).refresh({}, ["tiny: in-step", "  traffic"], "one line")
    assert isinstance(out.buffer, io.BytesIO)
    assert out.buffer.getvalue() == b"\x1b[Htiny: in-step\x1b[K\n  traffic\x1b[K\n\x1b[J"
