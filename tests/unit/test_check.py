"""tools/check.py: what it prints of a step that fails, and what an interrupted one leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tools import check

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from tools import check
sys.exit(check.main([], ((check.Step("first", ("test",), %s),), (check.Step("second", ("test",)),))))
"""
LEAVES_A_CHILD = """
import os, signal, subprocess, sys, tempfile, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(1))
tempfile.mkdtemp()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
print("started", child.pid, tempfile.gettempdir(), flush=True)
time.sleep(100)
"""


def started(step: str, *arguments: str) -> subprocess.Popen[str]:
    """tools/check.py with a first step of these arguments, and a second one."""
    command = [sys.executable, "-c", PROGRAM % step, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_step_leaves_no_process_and_no_file(sent: signal.Signals) -> None:
    with started('commands=((sys.executable, "-c", sys.argv[1]),)', LEAVES_A_CHILD) as running:
        assert running.stdout is not None
        line = next(line for line in running.stdout if line.startswith("started"))
        _, pid, folder = line.split()
        running.send_signal(sent)
        rest = running.stdout.read()
        assert running.wait() == 130
    assert "left behind, ended" in rest
    assert "== interrupted" in rest
    assert not Path(folder).exists()
    assert not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE


def test_failed_test_is_named_with_the_command_that_repeats_it(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_good(): pass\ndef test_bad(): assert False\n")
    folders = (str(tmp_path), f"--rootdir={tmp_path}", "-p", "no:cacheprovider")
    with started("folders=tuple(sys.argv[1:]), processes=1", *folders) as running:
        out, _ = running.communicate()
    assert running.returncode == 1
    assert "-m pytest test_a.py::test_bad" in out
    assert "test_a.py::test_good" in out.rpartition("== the slowest tests")[2]
    assert "== second" not in out


def test_every_step_belongs_to_a_tier_and_has_its_own_name() -> None:
    steps = [step for stage in check.STAGES for step in stage]
    assert len({step.name for step in steps}) == len(steps)
    assert all(step.tiers and set(step.tiers) <= check.TIERS.keys() for step in steps)
    run = {folder for step in steps for folder in step.folders}
    assert all((ROOT / folder).exists() for folder in run)
    # One step runs all tests besides those that others run.
    assert {folder for step in steps for folder in step.besides} <= run


def test_unknown_step_is_answered_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        check.main(["unti"])
    assert "no step 'unti'; there are: environments, lint, unit" in capsys.readouterr().err
