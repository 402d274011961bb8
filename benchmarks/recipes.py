"""Bad recipes refused in the right words, and generated ones that must bring nothing else than a refusal."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import checked
from benchmarks.result import Figure, Result
from benchmarks.suites import cases

CASES = 100_000
AIM_MS, AIM_MB = 0.050, 100.0
MESSAGES = "tests/unit/recipe/test_bad_recipes.py::test_bad_recipe_gives_exactly_these_messages"


def run() -> Result:
    right, tried = cases(MESSAGES)
    response = _fuzz()
    return Result(
        what="tests/unit/recipe/bad: each with its exact messages; tools/fuzz.py: anything but RecipeError ends it",
        figures=[
            Figure(
                what="Bad recipes that are refused with exactly the expected message",
                value=right,
                unit="",
                total=tried,
            ),
            Figure(
                what="Generated recipes that are accepted, or refused with a reason",
                value=response["good"] + response["refused"],
                unit="",
                total=response["cases"],
            ),
            Figure(
                what="Slowest check of a generated recipe",
                value=response["worst_ms"] / 1000,
                unit="s",
                at_most=AIM_MS,
            ),
            Figure(
                what="Peak memory of the process",
                value=response["peak_memory_mb"],
                unit="MB",
                at_most=AIM_MB,
            ),
        ],
        versions={name: version(name) for name in ("lmi-deploy", "pytest", "pyyaml")},
        details={"fuzz": response},
    )


def _fuzz() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "fuzz.json")
        checked([sys.executable, "-m", "tools.fuzz", "--cases", str(CASES), "--json", out])
        response: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return response
