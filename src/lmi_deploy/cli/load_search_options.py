"""The options of `lmi bench run` that let a search choose the loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

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
