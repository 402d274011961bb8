"""The load of a point: how requests are sent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from lmi_deploy.errors import UsageRefused

LOADS: Final = ("concurrency", "rate")
"""Factors that are the load; all others name a deployment and a workload."""
LoadKind = Literal["closed", "open"]
MOST_STEPS: Final = 10
"""Of a ramp that does not say how many."""
MOST_CONCURRENCY: Final = 4096
_SAMPLES: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """The load changes until it is `to`, `seconds` after the warm-up: a rate evenly, a concurrency in `steps` of equal
    time.
    """

    to: float
    seconds: float
    steps: int = MOST_STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`concurrency` of a closed loop, `rate` (requests per second) of an open one; a replayed trace has neither. With
    a `ramp` it is the first one.
    """

    kind: LoadKind
    concurrency: int | None = None
    rate: float | None = None
    arrivals: str = ""
    ramp: Ramp | None = None

    @property
    def words(self) -> str:
        ramp = self.ramp
        over = f" over {ramp.seconds:g} s" if ramp else ""
        if self.kind == "closed":
            to = f" to {ramp.to:g} in {ramp.steps} steps{over}" if ramp else ""
            return f"closed loop, concurrency {self.concurrency}{to}"
        to = f" to {ramp.to:.4g}" if ramp else ""
        rate = f"{self.rate:.4g}{to} requests/s{over}" if self.rate is not None else ""
        return ", ".join(filter(None, ["open loop", rate, self.arrivals]))

    @property
    def brief(self) -> str:
        """In the name of a point; a replayed trace has no rate of its own."""
        to = f"..{self.ramp.to:.4g}" if self.ramp else ""
        if self.kind == "closed":
            return f"c={self.concurrency}{to}"
        return f"{self.rate:.4g}{to}/s" if self.rate is not None else self.arrivals or "open"

    @property
    def most_concurrency(self) -> int:
        """Of a closed loop; 1 of an open one."""
        return max(self.concurrency or 1, int(self.ramp.to) if self.ramp and self.kind == "closed" else 1)

    def level(self, at: float) -> float:
        """The concurrency or the rate so many seconds after the warm-up."""
        first = float((self.concurrency if self.kind == "closed" else self.rate) or 0)
        if self.ramp is None:
            return first
        share = min(max(at / self.ramp.seconds, 0.0), 1.0)
        if self.kind == "open":
            return first + (self.ramp.to - first) * share
        step = min(int(share * self.ramp.steps), self.ramp.steps - 1)
        return float(round(first + (self.ramp.to - first) * step / max(self.ramp.steps - 1, 1)))

    def mean_level(self, begin: float, end: float) -> float:
        """Over a part of the run."""
        if self.ramp is None or end <= begin:
            return self.level(begin)
        width = (end - begin) / _SAMPLES
        return sum(self.level(begin + (number + 0.5) * width) for number in range(_SAMPLES)) / _SAMPLES


def with_ramp(load: Load, to: float, steps: int | None, *, seconds: float) -> Load:
    """UsageRefused if there is no ramp from that load to `to`."""
    first = load.level(0.0)
    if to == first:
        raise UsageRefused(f"a ramp from {first:g} to {to:g} is none", hint="choose another end")
    if load.kind == "open":
        if steps is not None:
            raise UsageRefused("a ramp of a rate has no steps", hint="omit the number of steps")
        return replace(load, ramp=Ramp(to=to, seconds=seconds))
    if to != int(to) or not 1 <= to <= MOST_CONCURRENCY:
        hint = "or start from a rate"
        raise UsageRefused(
            f"{to:g} is no concurrency from 1 to {MOST_CONCURRENCY}", hint=f"correct it, {hint}"
        )
    levels = int(abs(to - first)) + 1
    return replace(load, ramp=Ramp(to=to, seconds=seconds, steps=min(steps or MOST_STEPS, levels)))
