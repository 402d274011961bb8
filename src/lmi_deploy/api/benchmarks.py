"""`Deployment.bench`: load on a deployment, and its report."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from lmi_deploy.api.load_measurement import (
    LiveProgress,
    LoadOptions,
    RequestOptions,
    deployed_measurement,
    require_client,
)
from lmi_deploy.api.run import Watch
from lmi_deploy.bench.load import Load
from lmi_deploy.bench.objectives import objectives_of
from lmi_deploy.bench.probe_request import DEFAULT_PROMPT
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.report import LoadPoint, Report
from lmi_deploy.bench.report_file import to_json
from lmi_deploy.bench.report_tables import brief_tables
from lmi_deploy.bench.request_target import RequestForm
from lmi_deploy.bench.run_limits import RunLimits
from lmi_deploy.bench.run_sequence import MeasuredLoad, Measurement, measure
from lmi_deploy.bench.text_reports import headline
from lmi_deploy.domain.events import Notice
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import DeployFailed, UsageRefused
from lmi_deploy.ui.bench_text import table_lines
from lmi_deploy.workflows.dependencies import Dependencies

Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What `Deployment.bench` was asked for; the defaults are those of `lmi bench`."""

    prompts: str | Sequence[str] = DEFAULT_PROMPT
    concurrency: int | Sequence[int] = ()
    rate: Number | Sequence[Number] = ()
    seconds: float = 30.0
    output_tokens: int | None = None
    objectives: Mapping[str, float] | None = None
    max_cost: float | None = None

    @property
    def sending(self) -> RequestOptions:
        prompts = [self.prompts] if isinstance(self.prompts, str) else [*self.prompts]
        if not prompts:
            raise UsageRefused("prompts: there are none", hint="give one prompt or more")
        return RequestOptions(
            requests=tuple(BenchRequest(prompt=prompt) for prompt in prompts),
            source="one prompt" if len(prompts) == 1 else f"{len(prompts)} prompts",
            form=RequestForm(output_tokens=self.output_tokens),
        )

    @property
    def load(self) -> LoadOptions:
        limits = RunLimits(seconds=self.seconds, seconds_after=_TIMEOUT)
        return LoadOptions(
            loads=_loads(_several(self.concurrency), _several(self.rate)),
            search=None,
            limits=limits,
            objectives=objectives_of(tuple((self.objectives or {}).items())),
            confidence=0.95,
            max_cost=self.max_cost,
            timeout=_TIMEOUT,
            seed=0,
        )


_TIMEOUT = 120.0
_POLL = 0.2


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The report of a measurement. `print(benchmark)` shows its tables; `lmi bench report` and `compare` read what
    `save` writes.
    """

    report: Report

    @property
    def points(self) -> tuple[LoadPoint, ...]:
        """One for each load, with counts, metrics and checks."""
        return self.report.points

    @property
    def is_valid(self) -> bool:
        """Whether the figures can be trusted: no check of the measurement failed."""
        return self.report.is_valid

    @property
    def passes(self) -> bool:
        """Whether the figures can be trusted, and every objective is met."""
        return self.is_valid and self.report.judgement not in ("FAIL", "UNDECIDED")

    def save(self, path: str | PathLike[str]) -> None:
        """As JSON; an existing file is replaced."""
        Path(path).write_text(to_json(self.report), encoding="utf-8")

    def __str__(self) -> str:
        return "\n".join([*table_lines(brief_tables(self.report)), headline(self.report)])


def benchmark(ref: DeploymentRef, deps: Dependencies, options: BenchOptions, progress: Watch) -> Benchmark:
    """DeployFailed if no request succeeded. Ctrl-C ends it with the report of what was measured."""
    require_client()
    found = deployed_measurement(
        ref, deps, options.sending, options.load, note=lambda text: progress(Notice(text=text))
    )
    report = _measured(found.measurement, progress)
    errors = sorted({name for point in report.points for name in point.counts.errors})
    if errors and not any(point.counts.succeeded for point in report.points):
        raise DeployFailed(
            f"{report.name}: no request succeeded ({', '.join(errors)})",
            hint="`Deployment.invoke` sends one request, and its error is the server's own",
        )
    return Benchmark(report)


def _measured(measurement: Measurement, progress: Watch) -> Report:
    """In a notebook this thread has an event loop already, and the measurement needs its own: it gets a thread."""
    watch = LiveProgress(progress)

    def ended(each: MeasuredLoad) -> None:
        progress(Notice(text=f"{each.point.load.words}: {each.ended}, {each.point.counts.sent} requests"))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return measure(measurement, watch, ended)
    stopped = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(measure, replace(measurement, is_stopped=stopped.is_set), watch, ended)
        while not future.done():
            try:
                # Not without end: a signal that another thread gets does not wake this one.
                wait([future], timeout=_POLL)
            except KeyboardInterrupt:
                stopped.set()
        return future.result()


def _loads(concurrency: Sequence[Number], rate: Sequence[Number]) -> tuple[Load, ...]:
    if concurrency and rate:
        raise UsageRefused("concurrency and rate cannot be combined", hint="use one kind of load a run")
    if rate:
        return tuple(Load(kind="open", rate=float(each), arrivals="poisson") for each in rate)
    return tuple(Load(kind="closed", concurrency=int(each)) for each in concurrency or (1,))


def _several(given: Number | Sequence[Number]) -> Sequence[Number]:
    return (given,) if isinstance(given, (int, float)) else tuple(given)
