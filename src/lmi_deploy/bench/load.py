"""The load of a point: how requests are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

LOADS: Final = ("concurrency", "rate")
"""Factors that are the load; all others name a deployment and a workload."""
LoadKind = Literal["closed", "open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`concurrency` of a closed loop, `rate` (requests per second) of an open one; a replayed trace has neither."""

    kind: LoadKind
    concurrency: int | None = None
    rate: float | None = None
    arrivals: str = ""

    @property
    def words(self) -> str:
        if self.kind == "closed":
            return f"closed loop, concurrency {self.concurrency}"
        rate = f"{self.rate:.4g} requests/s" if self.rate is not None else ""
        return ", ".join(filter(None, ["open loop", rate, self.arrivals]))

    @property
    def brief(self) -> str:
        """In the name of a point; a replayed trace has no rate of its own."""
        if self.kind == "closed":
            return f"c={self.concurrency}"
        return f"{self.rate:.4g}/s" if self.rate is not None else self.arrivals or "open"
