"""Traffic and use of an endpoint over a time, as CloudWatch has measured them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentMetrics:
    """None where CloudWatch has no value of it."""

    requests: int | None = None
    errors_4xx: int | None = None
    errors_5xx: int | None = None
    model_latency_p50_ms: float | None = None
    model_latency_p99_ms: float | None = None
    overhead_latency_p50_ms: float | None = None
    overhead_latency_p99_ms: float | None = None
    gpu_percent: float | None = None
    """The mean. Each GPU of an instance adds up to 100."""
    gpu_memory_percent: float | None = None
    """The maximum. Each GPU of an instance adds up to 100."""
    memory_percent: float | None = None
    """The maximum."""
    unavailable: str = ""
    """Why nothing could be read; empty if it was read, with or without values."""
