"""`lmi status` shows what CloudWatch measured."""

from __future__ import annotations

from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.errors import AccessError
from tests.support.cloud_app import CloudApp

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
