"""Runs of a simulated server, for the tests of what `lmi bench` concludes."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from lmi_deploy.bench.load import Load
from lmi_deploy.bench.report import BilledInstances, ClientFigures
from lmi_deploy.bench.request_records import RequestRecord, RunResult, RunSettings
from lmi_deploy.domain.observed_state import Price

HEALTHY = ClientFigures(loop_lag_p99=0.0004, cpu=0.2, self_test_error=0.0003)
BEGAN = "2026-11-01T10:00:00Z"
T4 = BilledInstances(
    instance="ml.g4dn.xlarge",
    count=2,
    price=Price(hourly=0.7364, currency="USD", source="a test", date="2026-11"),
)


def closed_run(
    service: Callable[[int], float] | float = 0.1,
    *,
    concurrency: int = 1,
    requests: int = 100,
    tokens: int = 0,
    **changes: object,
) -> RunResult:
    """Each client sends as soon as it has its response. With `tokens` each response is a stream."""
    free = [0.0] * concurrency
    heapq.heapify(free)
    records = []
    for number in range(requests):
        begin = heapq.heappop(free)
        end = begin + (service(number) if callable(service) else service)
        heapq.heappush(free, end)
        records.append(_record(number, begin, begin, end, tokens))
    return _run(Load(kind="closed", concurrency=concurrency), records, changes)


def open_run(
    rate: float,
    *,
    service: Callable[[int, float], float] | float = 0.02,
    requests: int = 1000,
    seed: int = 1,
    tokens: int = 0,
    **changes: object,
) -> RunResult:
    """Poisson arrivals; the server works on all requests at once. `service` gets number and time."""
    chance, at, records = random.Random(seed), 0.0, []
    for number in range(requests):
        at += chance.expovariate(rate)
        length = service(number, at) if callable(service) else service
        records.append(_record(number, at, at, at + length, tokens))
    return _run(Load(kind="open", rate=rate, arrivals="poisson"), records, changes)


def _record(number: int, scheduled: float, sent: float, end: float, tokens: int) -> RequestRecord:
    arrivals = tuple(sent + (end - sent) * (i + 1) / tokens for i in range(tokens))
    return RequestRecord(
        scheduled=scheduled,
        sent=sent,
        end=end,
        arrivals=arrivals,
        status=200,
        number=number,
        input_tokens=10 if tokens else None,
        output_tokens=tokens or None,
        asked_tokens=tokens or None,
    )


def _run(load: Load, records: list[RequestRecord], changes: dict[str, object]) -> RunResult:
    billed = changes.pop("billed", BilledInstances())
    factors = changes.pop("factors", {})
    assert isinstance(billed, BilledInstances)
    assert isinstance(factors, dict)
    settings = RunSettings(load=load, factors=factors, billed=billed)
    fields = {"client": HEALTHY, "began": BEGAN, **changes}
    return RunResult(settings=settings, records=tuple(records), **fields)  # type: ignore[arg-type]
