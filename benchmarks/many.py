"""Many deployments in one account: AWS requests and time of `lmi ls --all` and `lmi gc`, on the emulator."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from benchmarks.measure import environment, say
from benchmarks.result import Figure, Result
from tests.support import many_deployments
from tests.support.emulator_process import emulator

AIM = 20
"""Requests, for 400 deployments: three resources with tags each make 12 pages, their endpoints 4."""
AIM_FOR = 400
COUNTS = (10, AIM_FOR, 2000)
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "`lmi ls --all`": ("ls", "--all"),
    "`lmi gc` that finds nothing to delete": ("gc",),
}


def run() -> Result:
    figures: list[Figure] = []
    details: dict[str, dict[str, int]] = {}
    for count in COUNTS:
        say(f"  {count:,} deployments ...")
        for what, (seconds, requests) in _measured(count).items():
            where = f"{what}, {count:,} deployments"
            details[where] = dict(Counter(requests))
            figures.append(
                Figure(
                    what=f"AWS requests of {where}",
                    value=len(requests),
                    unit="",
                    at_most=AIM if count == AIM_FOR else None,
                    note=f"{seconds:.1f} s on this machine's emulator",
                )
            )
    return Result(
        what="the emulator with deployments in service, each with its model, endpoint config, record and weights",
        figures=figures,
        versions={name: version(name) for name in ("lmi-deploy", "boto3", "botocore", "moto")},
        details={"requests": details},
    )


def _measured(count: int) -> dict[str, tuple[float, list[str]]]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        many_deployments.write(root / "state", count)
        with emulator(root, "--speed", "1000", "--dir", str(root / "state")) as aws:
            variables = aws.environment(root)
            return {what: _counted(root, variables, argv) for what, argv in COMMANDS.items()}


def _counted(root: Path, variables: Mapping[str, str], argv: tuple[str, ...]) -> tuple[float, list[str]]:
    place = root / "requests"
    place.unlink(missing_ok=True)
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "lmi_deploy.cli", *argv],
        cwd=root,
        env=environment({**os.environ, **variables, "LMI_AWS_REQUESTS": str(place)}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"error: lmi {' '.join(argv)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return time.perf_counter() - started, place.read_text().splitlines()
