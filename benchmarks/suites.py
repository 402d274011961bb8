"""Test suites that are figures, too: how many cases there are, and how many of them end as they must."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.measure import ROOT, environment


def cases(*places: str, only: str = "") -> tuple[int, int]:
    """(cases that passed, cases) of these test files; `only` is pytest's -k."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", *places, f"--junitxml={report}"]
        chosen = [*command, "-k", only] if only else command
        done = subprocess.run(
            chosen, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
        )
        if not report.exists():
            raise SystemExit(f"error: {' '.join(chosen)}: exit code {done.returncode}\n{done.stdout[-2000:]}")
        found = ElementTree.parse(report).getroot().iter("testcase")
        endings = [len(list(_bad(case))) for case in found]
    return endings.count(0), len(endings)


def _bad(case: ElementTree.Element) -> Sequence[ElementTree.Element]:
    return [part for part in case if part.tag in ("failure", "error", "skipped")]
