"""The environment of `make quickstart`: what the quickstart imports, and no tool of development."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT

pytestmark = pytest.mark.landing

REQUIREMENTS = ROOT / "requirements"
IMPORTS = "import tools.quickstart, tests.support.sample_model, tests.support.serving_environment"


def pins(name: str) -> set[str]:
    lines = (REQUIREMENTS / name).read_text().splitlines()
    return {line.split(" ")[0] for line in lines if "==" in line}


def test_its_pins_are_those_of_development() -> None:
    """The other environment is installed over it, in the same folder."""
    assert pins("quickstart.txt") - pins("dev.txt") == set()


def test_quickstart_finds_all_that_it_imports(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "tools/setup.py", str(venv), "quickstart"], cwd=ROOT, check=True)
    python = str(venv / "bin" / "python")
    subprocess.run([python, "-c", IMPORTS], cwd=ROOT, check=True)
    subprocess.run([python, "-m", "tests.support.hub", "--help"], cwd=ROOT, check=True, capture_output=True)
    assert not (venv / "bin" / "pytest").exists()
