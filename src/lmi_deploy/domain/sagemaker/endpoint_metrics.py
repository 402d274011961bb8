"""Traffic and use of an endpoint, or of an inference component, over a time, as CloudWatch has measured them."""

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
    """The mean. Each GPU of an instance adds up to 100; of an inference component all that a copy has are 100."""
    gpu_memory_percent: float | None = None
    """The maximum, counted in the same way."""
    memory_percent: float | None = None
    """The maximum; of an inference component of what a copy has reserved."""
    unavailable: str = ""
    """Why nothing could be read; empty if it was read, with or without values."""
