"""What CloudWatch measured of an endpoint in the last hour, as lines of `lmi status`."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics


def metrics_facts(found: RecentMetrics) -> list[tuple[str, str]]:
    """Name and words of each line."""
    if found.unavailable:
        return [("traffic", f"unknown: {found.unavailable}")]
    shown = ", ".join(_traffic(found))
    latencies = [_latency("model", found.model_latency_p50_ms, found.model_latency_p99_ms)]
    latencies.append(_latency("overhead", found.overhead_latency_p50_ms, found.overhead_latency_p99_ms))
    use = [
        ("GPU", found.gpu_percent, "on average"),
        ("GPU memory", found.gpu_memory_percent, "at most"),
        ("memory", found.memory_percent, "at most"),
    ]
    return [
        ("traffic", shown),
        ("latency", ", ".join(filter(None, latencies))),
        ("use", ", ".join(f"{name} {value:.0f} % {how}" for name, value, how in use if value is not None)),
    ]


def _traffic(found: RecentMetrics) -> Iterator[str]:
    if found.requests is None:
        yield "CloudWatch has no requests of the last hour (values come minutes late)"
        return
    yield f"{found.requests:,} request{'' if found.requests == 1 else 's'} in the last hour"
    yield f"{found.errors_4xx or 0:,} with a 4xx, {found.errors_5xx or 0:,} with a 5xx"


def _latency(what: str, median: float | None, slow: float | None) -> str:
    if median is None or slow is None:
        return ""
    return f"{what} p50 {_milliseconds(median)}, p99 {_milliseconds(slow)}"


def _milliseconds(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"
