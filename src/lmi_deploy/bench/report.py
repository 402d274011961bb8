"""A report: what was measured, under which load, by whom, and what is concluded. Times are in seconds.

`report_file.py` writes and reads it; its JSON Schema is `docs/reference/bench-report.schema.json`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from lmi_deploy.bench.histogram import Histogram
from lmi_deploy.bench.load import Load
from lmi_deploy.domain.observed_state import Price

SCHEMA: Final = "lmi-bench-report"
VERSION: Final = 1

Factor = str | int | float
State = Literal["ok", "warning", "invalid"]
Judgement = Literal["PASS", "FAIL", "UNDECIDED"]
SearchState = Literal["FOUND", "NONE", "UNDECIDED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentileFigure:
    """`value` is None if the sample is below `needed`: too small for this percentile."""

    quantile: float
    value: float | None
    low: float | None
    high: float | None
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedHistogram:
    """See `histogram.py`: bucket numbers in ascending order, and their counts."""

    buckets: tuple[int, ...]
    counts: tuple[int, ...]
    total: float
    squares: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One metric of all requests of a point. `interval` is that of the mean, at the confidence of the report.

    `inflation`: how many values say as much as one independent value; requests that wait for each other are not
    independent. `error`, the standard error of the mean, contains it.
    """

    n: int
    mean: float
    least: float
    greatest: float
    deviation: float | None
    error: float | None
    interval: tuple[float, float] | None
    inflation: float
    percentiles: tuple[PercentileFigure, ...]
    histogram: PackedHistogram

    def sample(self) -> Histogram:
        packed = self.histogram
        return Histogram(
            counts=dict(zip(packed.buckets, packed.counts, strict=True)),
            n=self.n,
            total=packed.total,
            squares=packed.squares,
            low=packed.low,
            high=packed.high,
        )

    def percentile(self, quantile: float) -> float | None:
        """None if it is not reported, or the sample is too small."""
        return next((one.value for one in self.percentiles if one.quantile == quantile), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Of the whole, per second; `interval` at the confidence of the report, None if the run was too short for it."""

    value: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """Requests in the measured window. `errors` by class; `truncated` streams are among them."""

    sent: int
    succeeded: int
    failed: int
    errors: dict[str, int] = field(default_factory=dict)
    truncated: int = 0
    warmup: int = 0
    input_tokens: int = 0
    input_counted: int = 0
    """Responses whose input tokens are known; `input_by_tokenizer` of them not by the server's count."""
    input_by_tokenizer: int = 0
    input_checked: int = 0
    """Responses to prompts of an asked length that the server counted; the sums of both lengths over them."""
    input_asked: int = 0
    input_found: int = 0
    output_tokens: int = 0
    items: int = 0
    wrong_length: int = 0
    """Responses whose number of tokens is not the one that was asked for."""
    length_checked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlice:
    """A part of the time line: `begin` from the start of the window. `heat` counts latencies by class, four classes to
    a doubling: class k holds 1 ms * 2 ** (k / 4) and above.
    """

    begin: float
    completed: int
    failed: int
    mean: float | None
    p50: float | None
    greatest: float | None
    in_flight: float
    output_tokens: int
    heat: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RampSlice:
    """A part of a ramp, `begin` from its start. `asked`: the mean concurrency or rate. Latencies are of the requests
    that were due in it; a percentile is None if they are too few for it.
    """

    begin: float
    seconds: float
    asked: float
    sent: int
    completed: int
    failed: int
    in_flight: float
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    greatest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFigures:
    """Of the load generator: lag of its event loop, share of one core, its self-test, requests that it sent again."""

    loop_lag_p99: float | None = None
    cpu: float | None = None
    send_lag_p99: float | None = None
    self_test_error: float | None = None
    self_test_error_p99: float | None = None
    clock_jump: float | None = None
    """How far the wall clock moved against the monotonic one."""
    endpoint_changed: str = ""
    resent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check of consistency: `ok`, or what is wrong, with the numbers."""

    name: str
    state: State
    text: str
    metric: str = ""
    """The only figure that an `invalid` check makes unusable; empty: all of the point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Of one objective."""

    objective: str
    judgement: Judgement
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledInstances:
    """What was billed for the point. `price` is of one instance and hour; None: unknown, or nothing is billed."""

    instance: str = ""
    count: int = 1
    price: Price | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One cell of the experiment: one load on one deployment. `factors` are its place in the design."""

    name: str
    factors: dict[str, Factor]
    load: Load
    billed: BilledInstances
    began: str
    seconds: float
    counts: RequestCounts
    metrics: dict[str, Summary]
    rates: dict[str, Rate]
    in_flight: float
    """Mean number of requests in flight, measured over the window."""
    client: ClientFigures
    timeline: tuple[TimeSlice, ...] = ()
    ramp: tuple[RampSlice, ...] = ()
    checks: tuple[Check, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    cloudwatch: dict[str, float] = field(default_factory=dict)
    """ModelLatency and the others of SageMaker for the same minutes, where it has them."""
    settings: dict[str, Factor] = field(default_factory=dict)
    """Of the deployment, by recipe key: model, engine, dtype, batch, degree."""

    @property
    def is_valid(self) -> bool:
        return not self.why_invalid()

    def why_invalid(self, metric: str = "") -> str:
        """Why nothing follows from the point, or from this figure of it; empty: it can be used."""
        failed = (one for one in self.checks if one.state == "invalid" and one.metric in ("", metric))
        return next((one.text for one in failed), "")

    @property
    def passes(self) -> bool:
        """Every objective is met."""
        return bool(self.verdicts) and all(one.judgement == "PASS" for one in self.verdicts)

    def rate(self, name: str) -> float:
        """0 if it was not measured."""
        found = self.rates.get(name)
        return found.value if found else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where the figures come from. `clock` names the clock of the times; `details` by name: image, commit of the
    model, digest of the recipe, endpoint, versions of packages.
    """

    tool: str
    python: str
    machine: str
    cpus: int
    clock: str
    details: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStep:
    """One load of a search: the name of its point, its rate or concurrency, and what follows from it."""

    point: str
    level: float
    outcome: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """`value`: a rate or a concurrency; NONE: no rate meets the objectives. `steps` in the order of their runs."""

    kind: Literal["max-rate", "knee"]
    state: SearchState
    value: float | None
    text: str
    steps: tuple[SearchStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    name: str
    created: str
    provenance: Provenance
    points: tuple[LoadPoint, ...]
    schema: str = SCHEMA
    version: int = VERSION
    confidence: float = 0.95
    layout: str = "summary"
    baseline: str = ""
    """The variant that others are compared with."""
    objectives: tuple[str, ...] = ()
    seed: int = 0
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    search: SearchAnswer | None = None
    """If a search chose the loads: they contain some that must fail."""

    @property
    def is_valid(self) -> bool:
        return all(point.is_valid for point in self.points)

    @property
    def judgement(self) -> Judgement | None:
        """Of the search, if there was one. Else over all points: FAIL if any fails; None without objectives."""
        if self.search is not None:
            if self.search.state == "FOUND":
                return "PASS" if self.search.kind == "max-rate" else None
            return "FAIL" if self.search.state == "NONE" else "UNDECIDED"
        found = {one.judgement for point in self.points for one in point.verdicts}
        return next((one for one in ("FAIL", "UNDECIDED", "PASS") if one in found), None)
