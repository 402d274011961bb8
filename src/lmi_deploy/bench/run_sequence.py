"""One load after the other on one target: each gets its self-test, its run and its point of the report."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import cycle

from lmi_deploy import __version__
from lmi_deploy.bench.arrivals import REPLAY, arrival_times, ramped_times, replayed_times
from lmi_deploy.bench.client_health import HealthProbe
from lmi_deploy.bench.load import Load
from lmi_deploy.bench.load_generator import LoadGenerator, Watch
from lmi_deploy.bench.load_search import LoadSearch
from lmi_deploy.bench.load_share import LoadShare
from lmi_deploy.bench.objectives import Objective
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.report import BilledInstances, Factor, LoadPoint, Provenance, Report
from lmi_deploy.bench.report_points import point_of
from lmi_deploy.bench.request_records import RunResult, RunSettings
from lmi_deploy.bench.request_sender import RequestSender
from lmi_deploy.bench.request_target import EncodedRequest, RequestForm, RequestTarget
from lmi_deploy.bench.run_limits import RunLimits, RunProgress
from lmi_deploy.bench.self_test import SelfTest, fixed_latency_server, measure_client
from lmi_deploy.bench.self_test_server import loop_factory
from lmi_deploy.errors import LmiError
from lmi_deploy.inference_client.client import InferenceClient, certificate_authorities

SELF_TEST_SECONDS = 1.0
_AROUND_SECONDS = 5.0
"""For the self-test and for reading the responses, once a load."""
_SHORT_COLLECTIONS = (2000, 2, 1_000_000)
"""Thresholds of the three generations: the oldest is never searched."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What is measured, and how. `seed` orders the requests and makes the schedules. A `search` chooses the loads."""

    name: str
    target: RequestTarget
    requests: Sequence[BenchRequest]
    form: RequestForm
    loads: Sequence[Load]
    limits: RunLimits
    timeout: float
    search: LoadSearch | None = None
    objectives: Sequence[Objective] = ()
    confidence: float = 0.95
    seed: int = 0
    self_test: bool = True
    share: LoadShare = field(default_factory=LoadShare)
    """Of each load: what this machine sends of it."""
    billed: BilledInstances = field(default_factory=BilledInstances)
    settings: dict[str, Factor] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    ready: Callable[[], None] = lambda: None
    """Called when a load is prepared; returns at the moment at which it begins."""
    server: Callable[[], str] = str
    """Reads the generation that answers, before and after each load. Empty if that cannot be known."""
    environ: Mapping[str, str] = field(default_factory=dict)
    is_stopped: Callable[[], bool] = bool
    """Ends the run as Ctrl-C does; for a thread, which gets no signals."""
    wall: Callable[[], float] = time.time
    """The wall clock. The report says if it jumps; no time of a request is measured by it."""

    @property
    def most_loads(self) -> int:
        return self.search.steps if self.search else len(self.loads)

    @property
    def longest(self) -> float:
        """Seconds that all loads may take, each with its self-test."""
        return self.most_loads * (self.limits.longest + _AROUND_SECONDS)

    def next_load(self, points: Sequence[LoadPoint]) -> Load | None:
        """None after the last."""
        if self.search is not None:
            return self.search.next_load(points)
        return self.loads[len(points)] if len(points) < len(self.loads) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLoad:
    """`ended`: why the run ended."""

    result: RunResult
    point: LoadPoint
    ended: str


def measure(
    measurement: Measurement, watch: Watch, notify: Callable[[MeasuredLoad], None] = lambda measured: None
) -> Report:
    """Ctrl-C ends the run; the report has what was measured. LmiError if no request could be sent."""
    points: list[LoadPoint] = []
    interrupted = False
    while not interrupted and (load := measurement.next_load(points)) is not None:
        measured = _measure_load(measurement, load, len(points), watch)
        points.append(measured.point)
        notify(measured)
        interrupted = measured.result.interrupted
    return measured_report(measurement, points, interrupted=interrupted)


def measured_report(measurement: Measurement, points: Sequence[LoadPoint], *, interrupted: bool) -> Report:
    return Report(
        name=measurement.name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        provenance=provenance(measurement.details),
        points=tuple(points),
        confidence=measurement.confidence,
        objectives=tuple(one.words for one in measurement.objectives),
        seed=measurement.seed,
        interrupted=interrupted,
        search=measurement.search.answer(points) if measurement.search else None,
    )


def _measure_load(measurement: Measurement, load: Load, number: int, watch: Watch) -> MeasuredLoad:
    result, ended = run_load(measurement, load, number, watch)
    point = point_of(result, confidence=measurement.confidence, objectives=measurement.objectives)
    return MeasuredLoad(result=result, point=point, ended=ended)


def run_load(measurement: Measurement, load: Load, number: int, watch: Watch) -> tuple[RunResult, str]:
    """What this machine measures of a load, and why its run ended. Each `number` of a load has its own schedule."""
    part = measurement.share.load(load)
    tested = self_test(part.most_concurrency) if measurement.self_test else None
    generator = LoadGenerator(
        run_settings(measurement, part),
        measurement.target,
        measurement.share.every(cycle(_encoded(measurement, load))),
        form=measurement.form,
        limits=measurement.share.limits(measurement.limits),
        clients_at=lambda at: measurement.share.clients(int(load.level(at))),
    )
    before = measurement.server()
    with _short_collections(), asyncio.Runner(loop_factory=loop_factory()) as runner:
        measurement.ready()
        result = runner.run(_run(generator, measurement, load, number, watch))
    result = with_change(result, before, measurement)
    if tested is not None:
        client = replace(
            result.client, self_test_error=tested.mean_error, self_test_error_p99=tested.p99_error
        )
        result = replace(result, client=client)
    return result, generator.stopped_because


def run_settings(measurement: Measurement, load: Load) -> RunSettings:
    return RunSettings(
        load=load,
        factors=_factors(load),
        billed=measurement.billed,
        settings=measurement.settings,
        streams=measurement.form.stream,
    )


def with_change(result: RunResult, before: str, measurement: Measurement) -> RunResult:
    """With what replaced the generation that served `before` the load, if anything did."""
    return replace(result, client=replace(result.client, endpoint_changed=_change(before, measurement)))


@contextmanager
def _short_collections() -> Iterator[None]:
    """No search for garbage through all that exists, or all that a run has kept: with a million pieces of responses it
    stops the event loop for a tenth of a second. Only what is new is searched.
    """
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SHORT_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _change(before: str, measurement: Measurement) -> str:
    """Empty if the same generation serves as before the load."""
    try:
        after = measurement.server()
    except LmiError as error:
        return str(error)
    return "" if after == before else f"{before} was replaced by {after}"


def _encoded(measurement: Measurement, load: Load) -> list[EncodedRequest]:
    """UsageRefused, before anything is sent, for a request that the target does not support."""
    target, form = measurement.target, measurement.form
    return [
        EncodedRequest(target.encode(one, form), one, form.exact_tokens(one))
        for one in _ordered(measurement, load)
    ]


def _ordered(measurement: Measurement, load: Load) -> list[BenchRequest]:
    """Those of a trace in the order of their times, others shuffled: neighbours in a file are often alike."""
    ordered = [*measurement.requests]
    if load.arrivals == REPLAY:
        ordered.sort(key=lambda one: one.at or 0.0)
    else:
        random.Random(measurement.seed).shuffle(ordered)
    return ordered


def _factors(load: Load) -> dict[str, Factor]:
    if load.ramp:
        return {}
    if load.concurrency is not None:
        return {"concurrency": load.concurrency}
    return {"rate": load.rate} if load.rate is not None else {}


async def _run(
    generator: LoadGenerator, measurement: Measurement, load: Load, number: int, watch: Watch
) -> RunResult:
    client = InferenceClient(tls=certificate_authorities(measurement.environ))
    sender = RequestSender(measurement.target.endpoint, client, timeout=measurement.timeout)
    warm_at = measurement.share.ramp_begins(measurement.limits, generator.warm_at)
    whole = _arrivals(measurement, load, number, warm_at=warm_at)
    arrivals = measurement.share.every(whole) if whole is not None else None

    def watched(progress: RunProgress) -> None:
        if measurement.is_stopped():
            generator.stop("interrupted", interrupted=True)
        watch(progress)

    with _stopped_by_signals(generator):
        try:
            return await generator.run(sender, arrivals, watched, HealthProbe(measurement.wall))
        finally:
            client.close()


def _arrivals(
    measurement: Measurement, load: Load, number: int, *, warm_at: Callable[[], float | None]
) -> Iterator[float] | None:
    if load.kind == "closed":
        return None
    if load.arrivals == REPLAY:
        return replayed_times([one.at for one in measurement.requests if one.at is not None])
    if load.ramp:
        return ramped_times(load, seed=measurement.seed + number, warm_at=warm_at)
    assert load.rate
    return arrival_times(load.rate, load.arrivals, seed=measurement.seed + number)


@contextmanager
def _stopped_by_signals(generator: LoadGenerator) -> Iterator[None]:
    """In the event loop a signal must not raise: it would end the run without its records. A thread gets none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        if before[number] is not signal.SIG_IGN:
            loop.add_signal_handler(number, lambda: generator.stop("interrupted", interrupted=True))
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                loop.remove_signal_handler(number)
                signal.signal(number, handler)


def self_test(concurrency: int, *, seconds: float = SELF_TEST_SECONDS) -> SelfTest:
    """The error of this client on this machine, at that concurrency, beside a server in a process of its own."""
    with fixed_latency_server() as port, asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(measure_client(port, concurrency, seconds=seconds))


def provenance(details: dict[str, str]) -> Provenance:
    loop = "uvloop" if loop_factory() else "asyncio"
    resolution = time.get_clock_info("perf_counter").resolution
    return Provenance(
        tool=f"lmi {__version__}",
        python=f"{platform.python_implementation()} {platform.python_version()}, {loop}",
        machine=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpus=os.cpu_count() or 1,
        clock=f"{time.get_clock_info('perf_counter').implementation}, resolution {resolution:g} s",
        details=dict(details),
    )
