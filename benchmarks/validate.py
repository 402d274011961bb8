"""`lmi validate` of one recipe and of a hundred in one call."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.installed import installed
from benchmarks.measure import ROOT, in_turns
from benchmarks.result import Figure, Result

RUNS = 15
MANY = 100
AIM = 2.0


def run() -> Result:
    core = installed()
    with tempfile.TemporaryDirectory() as folder:
        recipes = _copies(Path(folder), MANY)
        samples = in_turns(
            {"one": [core.lmi, "validate", recipes[0]], "many": [core.lmi, "validate", *recipes]}, runs=RUNS
        )
    return Result(
        what="wall-clock of whole processes; the recipes are those of recipes/, each under names of its own",
        figures=[
            Figure.typical("`lmi validate` of 1 recipe", samples["one"]),
            Figure.typical(f"`lmi validate` of {MANY} recipes in one call", samples["many"], at_most=AIM),
        ],
        versions=core.versions(),
    )


def _copies(folder: Path, count: int) -> list[Path]:
    """As many files with different content as asked for."""
    originals = sorted((ROOT / "recipes").glob("*.yaml"))
    created = []
    for number in range(count):
        original = originals[number % len(originals)]
        text = original.read_text(encoding="utf-8").replace("\nname: ", f"\nname: n{number:03}-", 1)
        created.append(folder / f"{number:03}-{original.name}")
        created[-1].write_text(text, encoding="utf-8")
    return created
