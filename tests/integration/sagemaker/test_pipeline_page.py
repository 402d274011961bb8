"""docs/how-to/run-in-ci.md is right: its scripts run unchanged against the emulator."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.ci_runner import RECIPE, CiRunner
from tests.support.emulator_process import Emulated

pytestmark = pytest.mark.landing

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "run-in-ci.md"


class Runner(CiRunner):
    def run(self, script: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.bash(script, *arguments, variables=more)


@pytest.fixture
def runner(aws: Emulated, tmp_path: Path) -> Runner:
    for script in blocks("bash"):
        name = re.search(r"^# (\w+\.sh)", script, re.MULTILINE)
        assert name is not None
        (tmp_path / name[1]).write_text(script)
    return Runner.of(aws, tmp_path)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_pipeline_scripts_deploy_and_delete(aws: Emulated, runner: Runner) -> None:
    first = runner.run("deploy.sh", "recipe.yaml", "echo")
    assert first.returncode == 0, first.stdout + first.stderr
    result = json.loads((runner.folder / "events.jsonl").read_text().splitlines()[-1])
    assert result["ok"]
    assert "Say OK" in first.stdout.splitlines()[-1]
    again = runner.run("deploy.sh", "recipe.yaml", "echo")
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True), again.stderr
    for _ in range(2):
        ended = runner.run("end.sh", "echo")
        assert ended.returncode == 0, ended.stderr
    assert aws.client("sagemaker").list_endpoints()["Endpoints"] == []


def test_pipeline_script_stops_at_an_error(aws: Emulated, runner: Runner) -> None:
    dear = runner.run("deploy.sh", "recipe.yaml", "echo", MAX_HOURLY="0.01")
    assert (dear.returncode, "may cost" in dear.stderr) == (5, True), dear.stderr
    (runner.folder / "recipe.yaml").write_text(RECIPE + "engien: vllm\n")
    wrong = runner.run("deploy.sh", "recipe.yaml", "echo")
    assert (wrong.returncode, "did you mean engine" in wrong.stderr) == (2, True), wrong.stderr
    assert aws.client("sagemaker").list_endpoints()["Endpoints"] == []


def test_workflow_gives_the_action_inputs_that_it_has() -> None:
    (workflow,) = [yaml.safe_load(text) for text in blocks("yaml")]
    inputs = yaml.safe_load((PAGE.parents[2] / "action.yml").read_text())["inputs"]
    steps = [step for step in workflow["jobs"]["deploy"]["steps"] if "lmi-deploy" in step["uses"]]
    assert [step["with"]["command"] for step in steps] == ["plan", "up", "down", "up"]
    assert all(set(step["with"]) <= set(inputs) for step in steps)
