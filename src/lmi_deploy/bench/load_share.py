"""The part of a load that one of several machines sends. All parts together are the load that one machine would send.

Each machine makes the whole schedule from the same seed and sends every n-th request of it. So the sum is not only a
process of the right kind: it is the same requests at the same times, whatever the arrivals (Poisson, constant, gamma or
those of a trace). Independent schedules of a part of the rate would add up to the right process for Poisson only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from lmi_deploy.bench.load import Load
from lmi_deploy.bench.run_limits import RunLimits
from lmi_deploy.errors import UsageRefused

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShare:
    """Of machine `number`, from 0, of `machines`."""

    number: int = 0
    machines: int = 1

    def load(self, whole: Load) -> Load:
        """UsageRefused if the load cannot be divided by so many machines."""
        if self.machines == 1:
            return whole
        ramp = whole.ramp
        if whole.kind == "open":
            ramp = ramp and replace(ramp, to=ramp.to / self.machines)
            return whole if whole.rate is None else replace(whole, rate=whole.rate / self.machines, ramp=ramp)
        ramp = ramp and replace(ramp, to=self._count(int(ramp.to), f"concurrency {ramp.to:g}"))
        first = self._count(whole.concurrency or 0, f"concurrency {whole.concurrency}")
        return replace(whole, concurrency=first, ramp=ramp)

    def clients(self, whole: int) -> int:
        """Of so many clients of a closed loop: in each step of a ramp all machines together have what it asks for."""
        return whole // self.machines + (self.number < whole % self.machines)

    def limits(self, whole: RunLimits) -> RunLimits:
        """The warm-up takes all of its time: steady latencies would end it at another time on each machine."""
        if self.machines == 1:
            return whole
        requests, warmup = whole.requests, whole.warmup_requests
        return replace(
            whole,
            requests=None if requests is None else self._count(requests, f"{requests} requests"),
            warmup_requests=None if warmup is None else -(-warmup // self.machines),
            until_steady=False,
        )

    def ramp_begins(
        self, limits: RunLimits, warm_at: Callable[[], float | None]
    ) -> Callable[[], float | None]:
        """Several machines know it before the load begins: else each would make another schedule."""
        agreed = limits.longest_warmup
        return warm_at if self.machines == 1 else lambda: agreed

    def every(self, items: Iterable[T]) -> Iterator[T]:
        """The items of this machine: times of a schedule, or the requests in their order."""
        return islice(items, self.number, None, self.machines)

    def _count(self, whole: int, what: str) -> int:
        if whole < self.machines:
            raise UsageRefused(
                f"{what} cannot be divided over {self.machines} machines: some would send nothing",
                hint="use fewer machines",
            )
        return self.clients(whole)


def require_divisible(load: Load, limits: RunLimits, machines: int) -> None:
    """UsageRefused if so many machines cannot divide it."""
    if machines > 1 and load.ramp and limits.warmup_requests:
        raise UsageRefused(
            f"a ramp over {machines} machines takes no number of requests as its warm-up: each machine would have sent "
            "its part at another time, and the ramp begins everywhere at once",
            hint=f"omit it (the warm-up then takes {limits.warmup_seconds:g} s), or set it to 0",
        )
    for number in range(machines):
        share = LoadShare(number=number, machines=machines)
        share.load(load)
        share.limits(limits)
