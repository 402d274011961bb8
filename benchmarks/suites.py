"""Test suites that are figures, too: how many cases there are, and how many of them end as they must."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.measure import ROOT, environment


def cases(*tests: str, without: Sequence[str] = ()) -> tuple[int, int]:
    """(cases that passed, cases) of these tests, each a file or `FILE::FUNCTION`. SystemExit if there are none."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        excluded = [f"--deselect={test}" for test in without]
        command = [sys.executable, "-m", "pytest", "-q", *tests, *excluded, f"--junitxml={report}"]
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
        )
        found = [*ElementTree.parse(report).getroot().iter("testcase")] if report.exists() else []
    if not found:
        raise SystemExit(
            f"error: no test ran, exit code {done.returncode}: {' '.join(command)}\n{done.stdout[-2000:]}"
        )
    endings = [len(_bad(case)) for case in found]
    return endings.count(0), len(endings)


def _bad(case: ElementTree.Element) -> Sequence[ElementTree.Element]:
    return [part for part in case if part.tag in ("failure", "error", "skipped")]
