"""The table of figures in docs/performance.md, from `results/*.json`: `python -m benchmarks.table [--write]`.

Without --write it only compares: exit code 1 and the difference when the page says something else.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterable
from typing import Any

from benchmarks.measure import ROOT
from benchmarks.result import RESULTS

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- figures -->", "<!-- /figures -->"
ORDER = (
    "startup",
    "validate",
    "diagnosis",
    "deployment",
    "engines",
    "size",
    "recipes",
    "hub",
    "transfer",
    "server",
    "proxy",
    "client",
    "emulator",
    "sagemaker",
    "first_up",
    "many",
)


def main(arguments: list[str]) -> int:
    text = PAGE.read_text(encoding="utf-8")
    required = with_table(text)
    if "--write" in arguments:
        PAGE.write_text(required, encoding="utf-8")
        return 0
    names = ("docs/performance.md", "docs/performance.md as benchmarks/results/ has it")
    difference = list(difflib.unified_diff(text.splitlines(), required.splitlines(), *names, lineterm=""))
    print("\n".join(difference), end="\n" if difference else "")
    return 1 if difference else 0


def with_table(text: str) -> str:
    """`text` with today's table between the markers; a section at the end where there are none."""
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n## Figures\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}{END}{rest.partition(END)[2]}"


def table() -> str:
    """Markdown: a row a figure, then where and when."""
    results = [response for name in ORDER if (response := _read(name)) is not None]
    rows = [_row(figure) for result in results for figure in result["figures"]]
    head = ["| Figure | Measured | Min to max (runs) | Aim | Met |", "|---|---:|---:|---:|---|"]
    return "\n".join([*head, *rows, "", *_places(results), ""])


def _read(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return None
    response: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return response


def line(figure: dict[str, Any]) -> str:
    """One figure for a terminal."""
    aim = _aim(figure)
    return f"{_label(figure)}: {_value(figure)}{f' (aim: {aim})' if aim else ''}"


def _row(figure: dict[str, Any]) -> str:
    met = {True: "yes", False: "no", None: ""}[figure["met"]]
    return f"| {_label(figure)} | {_value(figure)} | {_spread(figure)} | {_aim(figure)} | {met} |"


def _value(figure: dict[str, Any]) -> str:
    total = figure["aim"].get("total")
    return amount(figure["value"], figure["unit"]) if total is None else f"{figure['value']:,} of {total:,}"


def _aim(figure: dict[str, Any]) -> str:
    if "total" in figure["aim"]:
        return "all"
    ((kind, limit),) = figure["aim"].items()
    return "" if limit is None else f"{kind.replace('_', ' ')} {_bound(limit, figure['unit'])}"


def _label(figure: dict[str, Any]) -> str:
    note = f" ({figure['note']})" if figure.get("note") else ""
    return f"{figure['what']}{note}"


def _spread(figure: dict[str, Any]) -> str:
    if not figure["runs"]:
        return ""
    low, high = figure["min"], figure["max"]
    lowest, _ = _scaled(low, figure["unit"], like=high)
    return f"{lowest} to {amount(high, figure['unit'])} ({len(figure['runs'])})"


def amount(number: float, unit: str) -> str:
    """Three digits that mean something, and the unit that a person would choose."""
    return _with_unit(*_scaled(number, unit, like=number))


def _scaled(number: float, unit: str, *, like: float) -> tuple[str, str]:
    if unit == "s" and like < 1:
        return f"{number * 1000:.0f}", "ms"
    if unit == "":
        return f"{number:,.0f}", ""
    digits = 2 if like < 10 else 1 if like < 100 else 0
    return f"{number:.{digits}f}", unit


def _bound(limit: float, unit: str) -> str:
    """An aim is a round number: no digits that nobody wrote."""
    return (
        _with_unit(f"{limit * 1000:g}", "ms")
        if unit == "s" and limit < 1
        else _with_unit(f"{limit:,g}", unit)
    )


def _with_unit(number: str, unit: str) -> str:
    """`1.5x`, but `1.5 s`."""
    return f"{number}{unit}" if unit == "x" else f"{number} {unit}".rstrip()


def _places(results: Iterable[dict[str, Any]]) -> list[str]:
    """One line for each machine and day that figures were taken on."""
    used: dict[str, list[str]] = {}
    for result in results:
        machine = result["machine"]
        place = (
            f"{result['date']}, {machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
            f"{machine['kernel']}, Python {machine['python']}"
        )
        used.setdefault(place, []).append(result["command"].rpartition(" ")[2])
    note = "Medians (ratios: of medians). Every run is in `benchmarks/results/`; `make bench` measures again."
    return [note, *(f"Taken {place}: {', '.join(names)}." for place, names in used.items())]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
