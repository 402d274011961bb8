"""Keep what a version of lmi writes, for tests/kept: `python -m tools.keep_state SOURCE OUT`.

SOURCE is a checkout of that version. Its `lmi` deploys on its own emulator, twice, so that there is something to roll
back to, and saves a plan. OUT gets `aws.json` (what is in AWS then, with the record), lmi's state folder, the plan, the
recipe, and the schema of what `--json` prints.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support.ci_runner import RECIPE
from tests.support.emulator_process import emulator
from tests.support.kept_state import read_account
from tests.support.least_privilege import HANDLER, write_model
from tests.support.output_changes import OUTPUT_SCHEMA


def main(source: str, out: str) -> int:
    target, code = Path(out).resolve(), {"PYTHONPATH": str(Path(source).resolve() / "src")}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        write_model(work / "model")
        (work / "model.py").write_text(HANDLER)
        with emulator(work, "--no-containers", variables=code) as aws:
            _deploy(work, {**os.environ, **code, **aws.environment(work)})
            kept = read_account(aws)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        (target / "aws.json").write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        shutil.copytree(work / "state", target / "state")
        for file in ("recipe.yaml", "plan.json"):
            shutil.copy(work / file, target / file)
        (target / OUTPUT_SCHEMA).write_text(_schema(code))
    return 0


def _deploy(work: Path, environ: Mapping[str, str]) -> None:
    for instance_type in ("ml.m5.2xlarge", "ml.m5.xlarge"):
        (work / "recipe.yaml").write_text(RECIPE.replace("ml.m5.xlarge", instance_type))
        subprocess.run(_lmi("up", "recipe.yaml", "--yes"), cwd=work, env=environ, check=True)
    changed = _lmi("plan", "recipe.yaml", "--set", "instance_type=ml.m5.4xlarge", "--out", "plan.json")
    subprocess.run(changed, cwd=work, env=environ, check=True)


def _schema(code: Mapping[str, str]) -> str:
    environ = {**os.environ, **code}
    return subprocess.run(
        _lmi("schema", "--events"), env=environ, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def _lmi(*arguments: str) -> list[str]:
    entry = "import sys; from lmi_deploy.cli import main; sys.exit(main())"
    return [sys.executable, "-P", "-c", entry, *arguments]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
