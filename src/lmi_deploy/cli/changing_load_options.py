"""The options of `lmi bench run` for more than given loads: a search that chooses them, and a ramp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from lmi_deploy.bench.load import MOST_STEPS
from lmi_deploy.bench.load_search import SEARCHES, KneeSearch, LoadSearch, RateSearch
from lmi_deploy.bench.objectives import Objective
from lmi_deploy.errors import UsageRefused

SEARCH_OPTIONS: Final = (
    click.option(
        "--find",
        type=click.Choice(SEARCHES),
        help="Choose the loads by a search, from --rate or --concurrency: the highest rate that meets every "
        "--objective, or the knee of the closed loop (highest throughput / latency).",
    ),
    click.option(
        "--steps",
        type=click.IntRange(2, 100),
        default=12,
        show_default=True,
        metavar="N",
        help="The most loads of --find.",
    ),
)
RAMP_OPTIONS: Final = (
    click.option(
        "--ramp-to",
        type=click.FloatRange(0, 100_000, min_open=True),
        metavar="N",
        help="After the warm-up change the load evenly, from --rate R or --concurrency N to this one, over --duration.",
    ),
    click.option(
        "--ramp-steps",
        type=click.IntRange(2, 100),
        metavar="N",
        help=f"With --concurrency and --ramp-to: steps of equal time.  [default: {MOST_STEPS}, or one a client]",
    ),
)
_HINT: Final = "omit one of them"
_FLAGS: Final = {"objectives": "objective"}
_EXCLUDED: Final = {
    "replay": "a trace has its own times",
    "find": "a search chooses its loads",
    "requests": "a ramp lasts as long as --duration",
    "objectives": "a ramp keeps no load up; --find max-rate searches under objectives",
}


def search_of(objectives: tuple[Objective, ...], given: Mapping[str, Any]) -> LoadSearch:
    """UsageRefused of options that contradict the search: a rate is searched for under objectives in an open loop, the
    knee without them in a closed one.
    """
    find, of_rate = given["find"], given["find"] == "max-rate"
    own, other = ("rate", "concurrency") if of_rate else ("concurrency", "rate")
    refused = next((name for name in (other, "replay") if given[name]), None)
    if refused:
        raise UsageRefused(f"--find {find} and --{refused} cannot be combined", hint=f"start from --{own}")
    if len(given[own]) > 1:
        raise UsageRefused(
            f"--find {find} takes one --{own}", hint="name the one that the search starts from"
        )
    if of_rate != bool(objectives):
        why = (
            "needs an --objective" if of_rate else "takes no --objective: the knee is that of the throughput"
        )
        hint = "for example --objective p99_ms=500" if of_rate else "omit it, or use --find max-rate"
        raise UsageRefused(f"--find {find} {why}", hint=hint)
    first = next(iter(given[own]), 1)
    if not of_rate:
        return KneeSearch(steps=given["steps"], first=first)
    return RateSearch(
        objectives=objectives,
        steps=given["steps"],
        confidence=given["confidence"],
        first=first,
        arrivals=given["arrivals"],
    )


def require_ramp(given: Mapping[str, Any]) -> None:
    """UsageRefused of options that have no meaning with a ramp, which is one run of many loads."""
    if given["ramp_to"] is None:
        raise UsageRefused("--ramp-steps has no effect without --ramp-to", hint="add --ramp-to N")
    for flag, why in _EXCLUDED.items():
        if given[flag]:
            raise UsageRefused(
                f"--ramp-to and --{_FLAGS.get(flag, flag)} cannot be combined: {why}", hint=_HINT
            )
    for flag in ("concurrency", "rate"):
        if len(given[flag]) > 1:
            raise UsageRefused(f"--ramp-to takes one --{flag}", hint="name the one that the ramp starts from")
