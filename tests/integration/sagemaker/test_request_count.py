"""The number of requests of an `up` without changes: every run of a pipeline waits for each of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.sagemaker import AIM
from tests.integration.sagemaker.test_killed_processes import RECIPE
from tests.support.emulator_process import emulator
from tests.support.fakes import model_files


def _lmi(root: Path, defaults: dict[str, str], *argv: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "lmi_deploy.cli", *argv],
        cwd=root,
        env={**os.environ, **defaults},
        check=True,
    )


def test_up_without_changes_stays_below_its_request_limit(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    for name, content in model_files().items():
        (tmp_path / "model" / name).write_bytes(content)
    (tmp_path / "tiny.yaml").write_text(RECIPE)
    (tmp_path / "aws").mkdir()
    recorded = tmp_path / "requests"
    with emulator(tmp_path / "aws", "--speed", "100000") as aws:
        defaults = dict(aws.environment(tmp_path))
        _lmi(tmp_path, defaults, "up", "tiny.yaml", "--yes")
        _lmi(tmp_path, {**defaults, "LMI_AWS_REQUESTS": str(recorded)}, "up", "tiny.yaml", "--yes")
    requests = recorded.read_text().splitlines()
    assert "s3 ListObjectsV2" in requests
    assert len(requests) <= AIM, requests
