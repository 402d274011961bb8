"""The options of `lmi bench run`: what is sent (request_options.py), how fast, and until when."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from lmi_deploy.api.load_measurement import LoadOptions, RequestOptions
from lmi_deploy.bench.arrivals import ARRIVALS, REPLAY
from lmi_deploy.bench.load import Load, with_ramp
from lmi_deploy.bench.objectives import Objective, parse_objective
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.run_limits import RunLimits
from lmi_deploy.cli.changing_load_options import RAMP_OPTIONS, SEARCH_OPTIONS, require_ramp, search_of
from lmi_deploy.cli.request_options import REQUEST_NAMES, REQUEST_OPTIONS, sending_of
from lmi_deploy.cli.shared_options import amount
from lmi_deploy.errors import UsageRefused

F = TypeVar("F", bound=Callable[..., Any])


_LOAD_OPTIONS = (
    click.option(
        "-c",
        "--concurrency",
        multiple=True,
        type=click.IntRange(1, 4096),
        metavar="N",
        help="Closed loop: keep N requests running; can be repeated.  [default: 1]",
    ),
    click.option(
        "--rate",
        multiple=True,
        type=click.FloatRange(0, 100_000, min_open=True),
        metavar="R",
        help="Open loop: R requests a second; can be repeated.",
    ),
    click.option(
        "--arrivals",
        type=click.Choice(ARRIVALS),
        default="poisson",
        show_default=True,
        help="The gaps between requests of --rate.",
    ),
    *RAMP_OPTIONS,
    click.option(
        "--replay", is_flag=True, help="Open loop: send each request of --prompts at its second `at`."
    ),
    *SEARCH_OPTIONS,
    click.option(
        "--duration",
        type=click.FloatRange(0.1, 86_400),
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="Longest time of each load, after the warm-up.",
    ),
    click.option("--requests", type=click.IntRange(1), metavar="N", help="End each load after N requests."),
    click.option(
        "--warmup",
        type=click.IntRange(0),
        metavar="N",
        help="Requests that do not count.  [default: until latencies are steady, at most 30 s]",
    ),
    click.option(
        "--objective",
        "objectives",
        multiple=True,
        metavar="NAME=LIMIT",
        help="For example p99_ms=500, ttft_p95_ms=200, error_rate=0.01; can be repeated.",
    ),
    click.option(
        "--confidence",
        type=click.FloatRange(0.5, 0.9999),
        default=0.95,
        show_default=True,
        help="Of intervals and verdicts.",
    ),
    click.option(
        "--stop-at-errors",
        type=click.FloatRange(0, 1),
        default=0.5,
        show_default=True,
        metavar="SHARE",
        help="End a load when more than this share of its requests fail.",
    ),
    click.option(
        "--max-cost",
        type=float,
        callback=amount,
        metavar="DOLLARS",
        help="Refuse (exit 5) if the instances may cost more during all loads, or their price is unknown.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0.1),
        default=120.0,
        show_default=True,
        help="A request fails after this many seconds without data.",
    ),
    click.option(
        "--seed", type=int, default=0, show_default=True, help="Of the schedule and the order of requests."
    ),
)


def bench_options(function: F) -> F:
    """The command gets `sending`, a RequestOptions, and `load`, a LoadOptions."""

    @functools.wraps(function)
    def wrapped(**given: Any) -> Any:
        asked = {name: given.pop(name) for name in REQUEST_NAMES}
        load = {name: given.pop(name) for name in _LOAD_NAMES}
        sending = sending_of(asked, load["seed"])
        return function(sending=sending, load=_load(sending, **load), **given)

    for option in reversed((*REQUEST_OPTIONS, *_LOAD_OPTIONS)):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


_LOAD_NAMES = (
    *(
        "concurrency",
        "rate",
        "arrivals",
        *("ramp_to", "ramp_steps"),
        "replay",
        "find",
        "steps",
        "duration",
        "requests",
        "warmup",
        "objectives",
    ),
    *("confidence", "stop_at_errors", "max_cost", "timeout", "seed"),
)


def _load(sending: RequestOptions, **given: Any) -> LoadOptions:
    limits = RunLimits(
        seconds=given["duration"],
        requests=given["requests"],
        warmup_requests=0 if given["replay"] else given["warmup"],
        error_share=given["stop_at_errors"],
        seconds_after=given["timeout"],
    )
    objectives = tuple(map(_objective, given["objectives"]))
    return LoadOptions(
        loads=_loads(sending.requests, given),
        search=search_of(objectives, given) if given["find"] else None,
        limits=limits,
        objectives=objectives,
        confidence=given["confidence"],
        max_cost=given["max_cost"],
        timeout=given["timeout"],
        seed=given["seed"],
    )


def _loads(requests: Sequence[BenchRequest], given: Mapping[str, Any]) -> tuple[Load, ...]:
    loads = _steady_loads(requests, given)
    if given["ramp_to"] is None and given["ramp_steps"] is None:
        return loads
    require_ramp(given)
    return (with_ramp(loads[0], given["ramp_to"], given["ramp_steps"], seconds=given["duration"]),)


def _steady_loads(requests: Sequence[BenchRequest], given: Mapping[str, Any]) -> tuple[Load, ...]:
    kinds = [flag for flag in ("concurrency", "rate", "replay") if given[flag]]
    if len(kinds) > 1:
        words = " and ".join(f"--{kind}" for kind in kinds)
        raise UsageRefused(f"{words} cannot be combined", hint="use one kind of load a run")
    if given["replay"]:
        return (_replayed(requests),)
    if given["rate"]:
        return tuple(Load(kind="open", rate=rate, arrivals=given["arrivals"]) for rate in given["rate"])
    return tuple(Load(kind="closed", concurrency=many) for many in given["concurrency"] or (1,))


def _replayed(requests: Sequence[BenchRequest]) -> Load:
    times = [one.at for one in requests if one.at is not None]
    if len(times) < max(2, len(requests)):
        hint = "add the second of each request as `at` to its JSON line"
        raise UsageRefused("--replay: not every request of --prompts has its time", hint=hint)
    return Load(kind="open", arrivals=REPLAY)


def _objective(text: str) -> Objective:
    name, equals, limit = text.partition("=")
    try:
        return parse_objective(name.strip(), float(limit) if equals else float("nan"))
    except ValueError as reason:
        raise UsageRefused(
            f"--objective {text}: {reason}", hint="for example --objective p99_ms=500"
        ) from None
