"""`python -m tools.mutants record | run`: see the package's docstring."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from tools.check import TIERS
from tools.mutants.executed_lines import FOLDER, LAYERS, ExecutedLines, layer_of, record
from tools.mutants.mutant import HERE, ROOT, Mutant, read_mutants, statements

RESULTS = HERE / "results.json"
LIMIT = 240.0
"""Seconds that the tests of one layer may take for one mutant: a hang counts as found."""
FIRST = 25
"""Tests of a layer that are run before its others: those of which most is in the changed file."""
QUICK = 1.0
"""Seconds; a slower test of a layer is run after all quicker ones."""
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
NO_TESTS = 5
SURVIVED = "survived"


@dataclass(frozen=True)
class Worktree:
    """A checkout of HEAD, where one mutant at a time is applied. `.venv` is that of the main checkout."""

    folder: Path

    @classmethod
    def made(cls, number: int) -> Worktree:
        folder = FOLDER / f"tree-{number}"
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        add = ["git", "worktree", "add", "--quiet", "--force", "--detach", str(folder), "HEAD"]
        subprocess.run(
            ["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT, capture_output=True, check=False
        )
        subprocess.run(add, cwd=ROOT, check=True)
        return cls(folder)

    def removed(self) -> None:
        subprocess.run(["git", "worktree", "remove", "--force", str(self.folder)], cwd=ROOT, check=True)

    def first_failure(self, mutant: Mutant, executed: ExecutedLines, tier: str) -> str:
        """The test that finds it first, "LAYER: more than ... s" if it hangs, or `SURVIVED`."""
        path = self.folder / mutant.file
        original = path.read_text("utf-8")
        tests = executed.tests(mutant.file, statements(original, mutant.lines(original)))
        tests = tests or executed.tests(mutant.file, None)
        path.write_text(mutant.applied(original), "utf-8")
        try:
            for layer, part in _parts(tests, executed.seconds):
                if failed := self._fails(part, tier):
                    return failed if failed.startswith("tests/") else f"{layer}: {failed}"
        finally:
            path.write_text(original, "utf-8")
        return SURVIVED

    def _fails(self, tests: list[str], tier: str) -> str:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-m",
            TIERS.get(tier, ""),
            *tests,
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LMI_CI": "1",
        }
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"more than {LIMIT:.0f} s"
        if done.returncode in (0, NO_TESTS):
            return ""
        found = FAILED.search(done.stdout)
        return found[1] if found else f"pytest ended with {done.returncode}"


def _parts(tests: list[str], seconds: Mapping[str, float]) -> Iterator[tuple[str, list[str]]]:
    """What is run at once: nearest layer first, and of a layer the slow ones last. What the fixture of a whole file
    executes is recorded with the first of its tests alone: at last all tests of these files are run.
    """
    of_layer = {
        name: [test for test in tests if layer_of(test) == number] for number, name in enumerate(LAYERS)
    }
    for layer, here in of_layer.items():
        quick = [test for test in here if seconds.get(test, 0) < QUICK]
        slow = [test for test in here if test not in quick]
        others = sorted(quick[FIRST:], key=lambda test: seconds.get(test, 0))
        parts = (quick[:FIRST], others[: 8 * FIRST], others[8 * FIRST :], slow)
        yield from ((layer, part) for part in parts if part)
    for layer, here in of_layer.items():
        if here:
            yield layer, [*dict.fromkeys(test.partition("::")[0] for test in here)]


@dataclass
class Results:
    """By mutant the test that found it first, as it is kept in results.json."""

    path: Path
    found: dict[str, str] = field(default_factory=dict)

    def add(self, mutant: Mutant, test: str) -> None:
        self.found[mutant.id] = test
        text = json.dumps(dict(sorted(self.found.items())), indent=1, ensure_ascii=False)
        self.path.write_text(text + "\n", "utf-8")

    def summary(self) -> Iterator[str]:
        killed = Counter(_layer_name(test) for test in self.found.values())
        total = sum(killed.values())
        yield f"{total - killed[SURVIVED]} of {total} found ({100 * (1 - killed[SURVIVED] / max(1, total)):.1f} %)"
        for name, number in killed.most_common():
            yield f"{number:5}  {name}"


def _layer_name(test: str) -> str:
    return next((layer for layer in LAYERS if test.startswith(layer)), test)


def run(mutants: Iterable[Mutant], results: Results, *, tier: str, jobs: int) -> int:
    executed = ExecutedLines.read()
    trees: SimpleQueue[Worktree] = SimpleQueue()
    for number in range(jobs):
        trees.put(Worktree.made(number))

    def one(mutant: Mutant) -> tuple[Mutant, str, float]:
        tree, started = trees.get(), time.monotonic()
        try:
            return mutant, tree.first_failure(mutant, executed, tier), time.monotonic() - started
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(one, mutant) for mutant in mutants]):
            mutant, test, seconds = done.result()
            results.add(mutant, test)
            print(f"{seconds:6.1f} s  {mutant.id}: {test}", flush=True)
    while not trees.empty():
        trees.get().removed()
    print("\n".join(results.summary()))
    return 1 if SURVIVED in results.found.values() else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run the tests once under coverage")
    recording.add_argument("layers", nargs="*", default=LAYERS)
    recording.add_argument("--pytest", action="append", default=[], help="a further option for pytest")
    running = commands.add_parser("run", help="apply each mutant, and run the tests that execute its lines")
    running.add_argument("ids", nargs="*")
    running.add_argument("--tier", choices=[*TIERS, "all"], default="all")
    running.add_argument("--survivors", action="store_true", help="only those that survived the last time")
    running.add_argument("--jobs", type=int, default=2)
    running.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    # In the background of a script SIGINT is ignored, and so it would be by every test of Ctrl-C: it would never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if given.command == "record":
        return record(given.layers, given.pytest)
    known = json.loads(given.results.read_text("utf-8")) if given.results.exists() else {}
    mutants = [
        mutant
        for mutant in read_mutants()
        if (
            mutant.id in given.ids
            if given.ids
            else not given.survivors or known.get(mutant.id, SURVIVED) == SURVIVED
        )
    ]
    kept = known if given.ids or given.survivors else {}
    return run(mutants, Results(given.results, kept), tier=given.tier, jobs=given.jobs)


if __name__ == "__main__":
    sys.exit(main())
