"""SageMaker, before the emulator: requests that a command costs, crashes and faults survived, an update under load."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import environment, say
from benchmarks.result import Figure, Result
from benchmarks.suites import cases
from tests.integration.sagemaker import test_update_under_load as load
from tests.integration.sagemaker.test_killed_processes import RECIPE
from tests.support.emulator_process import emulator
from tests.support.fakes import model_files, safetensors

AIM = 13
"""With its config, model, role, autoscaling and the list of its weights looked at: what others did is found."""
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "`lmi up` that changes nothing": ("up", "tiny.yaml", "--yes"),
    "`lmi plan` that changes nothing": ("plan", "tiny.yaml"),
    "`lmi status`": ("status", "tiny"),
}
SUITES: Mapping[str, tuple[str, ...]] = {
    "Crash matrix: kills of `lmi` after which `up` completes and `down` leaves nothing": (
        "tests/functional/sagemaker/test_crash_matrix.py",
        *("-n", "2"),
    ),
    "Deployments whose `lmi` processes get real signals before and after each action; locks": (
        "tests/integration/sagemaker/test_killed_processes.py",
    ),
    "Faults of AWS and of the connection, with the expected exit code and message, and nothing lost": (
        "tests/integration/sagemaker/test_up_under_faults.py",
        "tests/integration/sagemaker/test_faults.py",
    ),
}


def run() -> Result:
    requests = _requests()
    lost, responses = _under_load()
    figures = [
        Figure(
            what=f"AWS requests of {what}",
            value=len(requests[what]),
            unit="",
            at_most=AIM if "up" in what else None,
            note="every one counted, the probe included" if "up" in what else "",
        )
        for what in COMMANDS
    ]
    update = Figure(
        what="Requests lost during an update and its rollback",
        value=len(lost),
        unit="",
        at_most=0,
        note=f"of {sum(responses.values()) + len(lost):,}, from 3 parallel clients that do not retry",
    )
    return Result(
        what="lmi before its emulator; requests as botocore sent them, the matrix in an account in memory",
        figures=[*figures, *(_suite(what, places) for what, places in SUITES.items()), update],
        versions={name: version(name) for name in ("lmi-deploy", "boto3", "botocore", "moto", "pytest")},
        details={"requests": requests, "answers_by_generation": dict(responses)},
    )


def _suite(what: str, places: tuple[str, ...]) -> Figure:
    right, tried = cases(*places)
    return Figure(what=what, value=right, unit="", total=tried)


def _requests() -> dict[str, list[str]]:
    """The requests of each command, once the deployment serves."""
    with tempfile.TemporaryDirectory() as folder, emulator(Path(folder), "--speed", "100000") as aws:
        root = Path(folder)
        (root / "model").mkdir()
        for name, content in model_files().items():
            (root / "model" / name).write_bytes(content)
        (root / "tiny.yaml").write_text(RECIPE)
        defaults = aws.environment(root)
        _lmi(root, defaults, "up", "tiny.yaml", "--yes")
        return {what: _counted(root, defaults, *argv) for what, argv in COMMANDS.items()}


def _counted(root: Path, defaults: Mapping[str, str], *argv: str) -> list[str]:
    place = root / "requests"
    place.unlink(missing_ok=True)
    _lmi(root, {**defaults, "LMI_AWS_REQUESTS": str(place)}, *argv)
    return place.read_text().splitlines()


def _under_load() -> tuple[list[str], Counter[Any]]:
    """Every request that failed, and what was answered, over an update and a roll-back."""
    lost: list[str] = []
    responses: Counter[Any] = Counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        emulator(Path(folder), "--speed", "600", containers=True) as aws,
    ):
        root, defaults = Path(folder), aws.environment(Path(folder))
        (root / "model").mkdir()
        (root / "model" / "model.safetensors").write_bytes(safetensors())
        (root / "echo.yaml").write_text(load.RECIPE)
        for generation in (1, 2):
            (root / "model.py").write_text(load.HANDLER.replace("GENERATION", str(generation)))
            if generation == 1:
                _lmi(root, defaults, "up", "echo.yaml", "--yes")
                continue
            with load.continuous_requests(aws, responses, lost):
                _lmi(root, defaults, "up", "echo.yaml", "--yes")
                _lmi(root, defaults, "rollback", "echo", "--yes")
        _lmi(root, defaults, "down", "echo", "--yes")
    return lost, responses


def _lmi(root: Path, defaults: Mapping[str, str], *argv: str) -> None:
    say(f"  lmi {' '.join(argv)}")
    done = subprocess.run(
        [sys.executable, "-m", "lmi_deploy.cli", *argv],
        cwd=root,
        env=environment({**os.environ, **defaults}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"error: lmi {' '.join(argv)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
