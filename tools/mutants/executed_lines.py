"""Which test executes which line: recorded by coverage, one context a test, programs that it starts too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from coverage import Coverage, CoverageData

from tools.mutants.mutant import ROOT, read_mutants

FOLDER = ROOT / ".build" / "mutants"
MAP = FOLDER / "executed.json"
LAYERS = (
    *("tests/unit", "tests/golden", "tests/functional", "tests/contract", "tests/handlers", "tests/server"),
    *("tests/emulator", "tests/integration", "tests/e2e"),
)
"""Nearest first."""
CONTEXT = "LMI_COVERED_TEST"
SETTINGS = f"""\
[run]
branch = True
parallel = True
source_pkgs = lmi_deploy
context = ${{{CONTEXT}-}}
data_file = {FOLDER / "coverage"}
patch = subprocess
disable_warnings = no-data-collected,module-not-measured,couldnt-parse,module-not-imported
"""
DURATIONS = FOLDER / "recording" / "durations"
"""A line for each test: its name and its seconds."""
PLUGIN = f"""\
import os

import coverage


def pytest_runtest_logreport(report):
    if "PYTEST_XDIST_WORKER" not in os.environ and report.when == "call":
        with open("{DURATIONS}", "a") as file:
            file.write(report.nodeid.split("[")[0] + " " + str(report.duration) + "\\n")


def pytest_runtest_logstart(nodeid, location):
    name = nodeid.split("[")[0]
    current = coverage.Coverage.current()
    if current is not None and os.environ.get("{CONTEXT}") != name:
        current.switch_context(name)
    os.environ["{CONTEXT}"] = name
"""


def layer_of(file: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if file.startswith(f"{layer}/"))


@dataclass(frozen=True, slots=True)
class ExecutedLines:
    """Of the files that a mutant changes: by file and line the tests, and how many of their lines each one executes."""

    by_line: dict[str, dict[int, list[str]]]
    total: dict[str, int]
    seconds: dict[str, float]
    """Of each test, in the recorded run."""

    @classmethod
    def read(cls) -> ExecutedLines:
        content = json.loads(MAP.read_text())
        names: list[str] = content["tests"]
        by_line = {
            file: {int(line): [names[number] for number in tests] for line, tests in lines.items()}
            for file, lines in content["lines"].items()
        }
        return cls(by_line, dict(zip(names, content["total"], strict=True)), content["seconds"])

    def tests(self, file: str, lines: Iterable[int] | None) -> list[str]:
        """Those that execute one of the lines (None: any line of the file): nearest layer first, then by how much of
        what they execute is in this file.
        """
        of_file = self.by_line.get(file, {})
        here: dict[str, int] = defaultdict(int)
        for tests in of_file.values():
            for test in tests:
                here[test] += 1
        wanted = {test for line in (of_file if lines is None else lines) for test in of_file.get(line, ())}
        return sorted(wanted, key=lambda test: (layer_of(test), -here[test] / self.total[test], test))


def record(layers: Iterable[str], pytest_options: Iterable[str]) -> int:
    """Runs the layers under coverage, one after another, and writes the map; the exit code of the first that failed."""
    shutil.rmtree(FOLDER / "recording", ignore_errors=True)
    plugins = FOLDER / "recording"
    plugins.mkdir(parents=True)
    settings = plugins / "coveragerc"
    settings.write_text(SETTINGS)
    (plugins / "lmi_covered_test.py").write_text(PLUGIN)
    code = 0
    for layer in layers:
        command = [
            *(sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", "-q", layer),
            *("-p", "lmi_covered_test", "-n", "2", "--dist", "loadfile", *pytest_options),
        ]
        environment = {**os.environ, "PYTHONPATH": str(plugins), "PYTHONDONTWRITEBYTECODE": ""}
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode or code
    write_map(settings)
    return code


def write_map(settings: Path) -> None:
    measured = Coverage(config_file=str(settings))
    measured.combine(keep=True)
    measured.save()
    data = measured.get_data()
    changed = {mutant.file for mutant in read_mutants()}
    found = {file: _tests_by_line(data, str(ROOT / file)) for file in sorted(changed)}
    total: dict[str, int] = defaultdict(int)
    for of_file in found.values():
        for tests in of_file.values():
            for test in tests:
                total[test] += 1
    numbers = {test: number for number, test in enumerate(total)}
    lines = {
        file: {line: [numbers[test] for test in tests] for line, tests in of_file.items()}
        for file, of_file in found.items()
    }
    seconds: dict[str, float] = defaultdict(float)
    for row in DURATIONS.read_text().splitlines():
        name, _, duration = row.rpartition(" ")
        seconds[name] += float(duration)
    content = {"lines": lines, "tests": [*total], "total": [*total.values()], "seconds": seconds}
    MAP.write_text(json.dumps(content))


def _tests_by_line(data: CoverageData, file: str) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for line, contexts in data.contexts_by_lineno(file).items():
        # A program inherits its test's context and may get one of its own: "TEST|TEST".
        if tests := sorted({name.split("|")[0] for name in contexts} - {""}):
            found[line] = tests
    return found
