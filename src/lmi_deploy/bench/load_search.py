"""Searches that choose each load by the points before it: the highest rate that meets the objectives, and the knee of a
closed loop. Both end after a number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, Protocol

from lmi_deploy.bench.load import Load
from lmi_deploy.bench.objectives import Objective
from lmi_deploy.bench.percentiles import needed_count
from lmi_deploy.bench.report import LoadPoint, SearchAnswer, SearchStep
from lmi_deploy.domain.number_text import counted, seconds_text

SEARCHES: Final = ("max-rate", "knee")
TOLERANCE: Final = 0.1
"""The search for a rate ends when the rate that meets the objectives and the one that does not are this close."""
LEAST_RATE: Final = 0.01
GREATEST_RATE: Final = 100_000.0
GREATEST_CONCURRENCY: Final = 4096
FALL: Final = 0.9
"""Of the highest power: below it the knee has been passed."""

_Outcome = Literal["PASS", "FAIL", "UNDECIDED", "INVALID", "too few requests"]


class LoadSearch(Protocol):
    """`steps`: the most loads that it measures."""

    @property
    def steps(self) -> int: ...

    def next_load(self, points: Sequence[LoadPoint]) -> Load | None:
        """None: the search has ended."""

    def answer(self, points: Sequence[LoadPoint]) -> SearchAnswer:
        """Also of a search that was interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSearch:
    """Doubles or halves the rate until one meets all objectives and one does not, then bisects between them."""

    objectives: Sequence[Objective]
    steps: int
    confidence: float = 0.95
    first: float = 1.0
    arrivals: str = "poisson"

    def next_load(self, points: Sequence[LoadPoint]) -> Load | None:
        if len(points) >= self.steps or (points and not points[-1].counts.succeeded):
            return None
        rate = self._next_rate(points) if points else self.first
        if rate is None or not LEAST_RATE <= rate <= GREATEST_RATE:
            return None
        return Load(kind="open", rate=float(f"{rate:.3g}"), arrivals=self.arrivals)

    def answer(self, points: Sequence[LoadPoint]) -> SearchAnswer:
        steps = tuple(
            SearchStep(point=one.name, level=_rate(one), outcome=self._outcome(one), text=self._reason(one))
            for one in points
        )
        above = self._above(points)
        passed = [one for one in points if one.passes and (above is None or _rate(one) < _rate(above))]
        best = max(passed, key=_rate, default=None)
        state, text = self._conclusion(best, above, points)
        return SearchAnswer(
            kind="max-rate", state=state, value=_rate(best) if best else None, text=text, steps=steps
        )

    def _next_rate(self, points: Sequence[LoadPoint]) -> float | None:
        above = self._above(points)
        below = [_rate(one) for one in points if above is None or _rate(one) < _rate(above)]
        if above is None:
            return max(below) * 2
        if not below:
            return _rate(above) / 2
        if _rate(above) / max(below) <= 1 + TOLERANCE:
            return None
        return math.sqrt(_rate(above) * max(below))

    def _above(self, points: Sequence[LoadPoint]) -> LoadPoint | None:
        """The lowest rate that is not shown to meet the objectives, although it had the requests for it. At a higher
        rate there are more requests in the same time: too few of them are no reason to search below.
        """
        beyond = [one for one in points if self._outcome(one) in ("FAIL", "UNDECIDED", "INVALID")]
        return min(beyond, key=_rate, default=None)

    def _outcome(self, point: LoadPoint) -> _Outcome:
        if point.passes:
            return "PASS"
        if any(one.judgement == "FAIL" for one in point.verdicts):
            return "FAIL"
        if not point.is_valid:
            return "INVALID"
        return "too few requests" if point.counts.sent < self._needed() else "UNDECIDED"

    def _needed(self) -> int:
        """The least requests with which all objectives can be met."""
        asked = [one.quantile for one in self.objectives if one.quantile is not None]
        asked += [1 - one.limit for one in self.objectives if one.metric == "error_rate" and one.limit > 0]
        return max((needed_count(one, self.confidence) for one in asked if one < 1), default=2)

    def _reason(self, point: LoadPoint) -> str:
        """The verdict that decides, else the first one."""
        if not point.is_valid:
            return point.why_invalid()
        verdicts = sorted(point.verdicts, key=lambda one: ("FAIL", "UNDECIDED", "PASS").index(one.judgement))
        return f"{verdicts[0].objective}: {verdicts[0].text}" if verdicts else ""

    def _conclusion(
        self, best: LoadPoint | None, above: LoadPoint | None, points: Sequence[LoadPoint]
    ) -> tuple[Literal["FOUND", "NONE", "UNDECIDED"], str]:
        words = " and ".join(one.words for one in self.objectives)
        done = counted(len(points), "step")
        if best is None:
            if above is not None and self._outcome(above) == "FAIL":
                return "NONE", f"no rate from {_rate(above):.4g} requests/s meets {words} ({done})"
            return "UNDECIDED", f"no rate is shown to meet {words} ({done}): a longer --duration decides"
        met = f"{_rate(best):.4g} requests/s meets {words}"
        if above is None:
            return "UNDECIDED", f"{met}, and the limit is higher ({done})"
        outcome = self._outcome(above)
        beyond = f"{_rate(above):.4g} is {outcome}"
        if outcome == "INVALID" or _rate(above) / _rate(best) > 1 + TOLERANCE + 0.01:
            return "UNDECIDED", f"{met}, {beyond}: the limit is between them or above ({done})"
        return "FOUND", f"{met}; {beyond} ({done})"


@dataclass(frozen=True, slots=True, kw_only=True)
class KneeSearch:
    """Doubles the concurrency until the power falls, then bisects around its highest value.

    Power is throughput divided by latency (L. Kleinrock, "Power and deterministic rules of thumb for probabilistic
    problems in computer communications", ICC 1979): its maximum is the knee. Beyond it latency grows faster than
    throughput.
    """

    steps: int
    first: int = 1

    def next_load(self, points: Sequence[LoadPoint]) -> Load | None:
        if len(points) >= self.steps or (points and not points[-1].counts.succeeded):
            return None
        many = self._next_concurrency(points) if points else self.first
        if many is None or many > GREATEST_CONCURRENCY:
            return None
        return Load(kind="closed", concurrency=many)

    def answer(self, points: Sequence[LoadPoint]) -> SearchAnswer:
        best = max(points, key=_power, default=None)
        greatest = _power(best) if best else 0.0
        steps = tuple(
            SearchStep(
                point=one.name,
                level=_clients(one),
                outcome="INVALID"
                if not one.is_valid
                else f"{_power(one) / (greatest or 1):.0%} of the power",
                text=_figures(one),
            )
            for one in points
        )
        done = counted(len(points), "step")
        if best is None or not greatest:
            return SearchAnswer(
                kind="knee", state="UNDECIDED", value=None, text=f"no valid step ({done})", steps=steps
            )
        at = f"concurrency {_clients(best)}: {_figures(best)}"
        over = _passed(points, best)
        found = over is not None and over.is_valid and self._middle(points, best) is None
        if found and over is not None:
            text = f"the knee is at {at}; at {_clients(over)}: {_figures(over)} ({done})"
        else:
            invalid = sum(not one.is_valid for one in points)
            left_out = f", of which {invalid} INVALID" if invalid else ""
            text = f"highest power so far at {at}; more --steps decide ({done}{left_out})"
        return SearchAnswer(
            kind="knee",
            state="FOUND" if found else "UNDECIDED",
            value=float(_clients(best)),
            text=text,
            steps=steps,
        )

    def _next_concurrency(self, points: Sequence[LoadPoint]) -> int | None:
        best = max(points, key=_power)
        if _passed(points, best) is None:
            return max(map(_clients, points)) * 2
        return self._middle(points, best)

    def _middle(self, points: Sequence[LoadPoint], best: LoadPoint) -> int | None:
        """Of the wider gap beside the best; None if both are within an eighth of it."""
        here = _clients(best)
        levels = sorted(map(_clients, points))
        gaps = [pair for pair in pairwise(levels) if here in pair and pair[1] - pair[0] > max(1, here // 8)]
        widest = max(gaps, key=lambda pair: pair[1] - pair[0], default=None)
        return sum(widest) // 2 if widest else None


def _passed(points: Sequence[LoadPoint], best: LoadPoint) -> LoadPoint | None:
    """The next higher concurrency, if at some higher one the power has clearly fallen."""
    higher = sorted((one for one in points if _clients(one) > _clients(best)), key=_clients)
    has_fallen = any(_power(one) < FALL * _power(best) for one in higher)
    return higher[0] if has_fallen else None


def _power(point: LoadPoint) -> float:
    """0 of a point that says nothing."""
    e2e = point.metrics.get("e2e")
    return point.rate("requests_per_s") / e2e.mean if e2e and e2e.mean and point.is_valid else 0.0


def _figures(point: LoadPoint) -> str:
    e2e = point.metrics.get("e2e")
    latency = f", mean {seconds_text(e2e.mean)}" if e2e else ""
    return f"{point.rate('requests_per_s'):.4g} requests/s{latency}"


def _clients(point: LoadPoint) -> int:
    return point.load.concurrency or 0


def _rate(point: LoadPoint) -> float:
    return point.load.rate or 0.0
