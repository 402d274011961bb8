"""What an installation takes on disk: files as they are long, bytecode not counted."""

from __future__ import annotations

import csv
from pathlib import Path

from benchmarks.installed import Installed, installed
from benchmarks.result import Figure, Result

AIM = 100.0
_NOT_OURS = ("pip", "setuptools", "wheel")


def run() -> Result:
    core, local = installed(), installed("local")
    sizes = {"core": by_package(core), "local": by_package(local)}
    return Result(
        what="bytes of every file that a package installed, scripts too, without bytecode; 1 MB = 1,000,000 bytes",
        figures=[
            *_figures("the core", sizes["core"], aim=AIM),
            *_figures("the core with `[local]`", sizes["local"], aim=None),
        ],
        versions=local.versions(),
        details={f"bytes_{name}": _largest_first(found) for name, found in sizes.items()},
    )


def by_package(place: Installed) -> dict[str, int]:
    """Bytes of each installed package, from its own list of files."""
    sizes = {
        about.name.partition("-")[0]: _bytes(about / "RECORD") for about in place.packages.glob("*.dist-info")
    }
    return {name: size for name, size in sizes.items() if name not in _NOT_OURS}


def _bytes(record: Path) -> int:
    site = record.parents[1]
    with record.open(encoding="utf-8", newline="") as lines:
        files = [site / row[0] for row in csv.reader(lines) if row and not row[0].endswith(".pyc")]
    return sum(file.stat().st_size for file in files if file.is_file())


def _figures(name: str, sizes: dict[str, int], *, aim: float | None) -> list[Figure]:
    total = sum(sizes.values()) / 1e6
    return [
        Figure(what=f"Installed size of {name}, without bytecode", value=total, unit="MB", at_most=aim),
        Figure(what=f"Packages of {name}, including lmi", value=len(sizes), unit=""),
    ]


def _largest_first(sizes: dict[str, int]) -> dict[str, int]:
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))
