"""What a benchmark leaves behind: `results/<name>.json`, every sample in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

from benchmarks.machine import machine
from benchmarks.measure import ROOT

RESULTS = ROOT / "benchmarks" / "results"


class Skipped(Exception):
    """This machine lacks what the benchmark needs; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One published value. `runs` are the samples behind it, in its own unit; `total` makes it a "12 of 12"."""

    what: str
    value: float
    unit: str
    runs: Sequence[float] = ()
    total: int | None = None
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @classmethod
    def typical(cls, what: str, runs: Sequence[float], unit: str = "s", **more: Any) -> Figure:
        """The median of samples."""
        return cls(what=what, value=median(runs), unit=unit, runs=tuple(runs), **more)

    @property
    def met(self) -> bool | None:
        """None where nothing was aimed at."""
        if self.total is not None:
            return self.value == self.total
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most

    def fields(self) -> dict[str, Any]:
        spread = (
            {
                "median": _short(median(self.runs)),
                "min": _short(min(self.runs)),
                "max": _short(max(self.runs)),
            }
            if self.runs
            else {}
        )
        aims = {"total": self.total, "at_least": self.at_least, "at_most": self.at_most}
        stated = [{key: value} for key, value in aims.items() if value is not None]
        response = {
            "what": self.what,
            "value": _short(self.value),
            "unit": self.unit,
            "aim": stated[0] if stated else {"at_most": None},
            "met": self.met,
        }
        note = {"note": self.note} if self.note else {}
        return {**response, **note, **spread, "runs": [_short(run) for run in self.runs]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One benchmark's figures; `details` is whatever else helps to understand them."""

    what: str
    figures: Sequence[Figure]
    versions: Mapping[str, str]
    details: Mapping[str, Any] = field(default_factory=dict)

    def write(self, name: str) -> None:
        """`results/<name>.json`, at once or not at all."""
        response = {
            "what": self.what,
            "command": f"python -m benchmarks {name}",
            "date": datetime.now(UTC).date().isoformat(),
            "machine": machine(),
            "versions": dict(self.versions),
            "figures": [figure.fields() for figure in self.figures],
            "details": dict(self.details),
        }
        RESULTS.mkdir(exist_ok=True)
        partial = RESULTS / f"{name}.json.partial"
        partial.write_text(json.dumps(response, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        partial.replace(RESULTS / f"{name}.json")


def _short(number: float) -> float:
    """Four places: a tenth of a millisecond is less than two runs differ by."""
    return round(number, 4)
