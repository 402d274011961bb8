"""action.yml, ci/gitlab.yml and ci/buildspec.yml are right: the shell in them runs unchanged against the emulator."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.ci_runner import RECIPE, CiRunner
from tests.support.emulator_process import Emulated

pytestmark = pytest.mark.landing

ROOT = Path(__file__).resolve().parents[3]
GH = """\
#!/usr/bin/env bash
# Stands in for GitHub's `gh api`: keeps the last comment in posted.md, and id, author and first line of all in a list.
echo "$@" >> gh.log
touch comments.tsv
case "$*" in
  *graphql*) echo 'github-actions[bot]' ;;
  *--jq*) cat comments.tsv ;;
  *) cp "$(echo "$*" | sed 's/.*body=@//')" posted.md
     printf '7\\tgithub-actions[bot]\\t%s\\n' "$(sed -n 1p posted.md)" >> comments.tsv ;;
esac
"""


class Runner(CiRunner):
    """With a stand-in for `gh` on its PATH."""

    def run(self, script: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return self.bash("-e", "-o", "pipefail", "-c", script, variables=variables)

    def action(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """The step that runs `lmi`, as GitHub runs `shell: bash`."""
        return self._step(-2, inputs)

    def comment(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        return self._step(-1, inputs)

    def _step(self, number: int, inputs: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        action = yaml.safe_load((ROOT / "action.yml").read_text())
        given = {key: declared.get("default", "") for key, declared in action["inputs"].items()}
        given |= {key.replace("_", "-"): value for key, value in inputs.items()}
        step = action["runs"]["steps"][number]
        assert "${{" not in step["run"]
        variables = {
            name: given[found[1]] if (found := re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value)) else "12"
            for name, value in step["env"].items()
        }
        return self.run(step["run"], variables)


@pytest.fixture
def runner(aws: Emulated, tmp_path: Path) -> Runner:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gh").write_text(GH)
    (programs / "gh").chmod(0o755)
    github = {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_REPOSITORY": "org/repo",
    }
    return Runner.of(aws, tmp_path, programs, **github)


def endpoints(aws: Emulated) -> list[str]:
    return [found["EndpointName"] for found in aws.client("sagemaker").list_endpoints()["Endpoints"]]


def test_action_plans_comments_deploys_and_removes_a_preview(aws: Emulated, runner: Runner) -> None:
    preview = {"recipe": "recipe.yaml", "name": "echo-pr-12", "ttl": "8h", "max_hourly": "5"}
    planned = runner.action(command="plan", **preview)
    assert planned.returncode == 0, planned.stderr
    assert (runner.folder / "summary.md").read_text().startswith("### `echo-pr-12`: ")
    assert "pending=true" in (runner.folder / "output").read_text()
    assert endpoints(aws) == []
    for _ in range(2):
        assert runner.comment(command="plan", **preview).returncode == 0
    assert "### `echo-pr-12`: " in (runner.folder / "posted.md").read_text()
    methods = re.findall(r"--method (\w+) (\S+)", (runner.folder / "gh.log").read_text())
    assert methods == [
        ("POST", "repos/org/repo/issues/12/comments"),
        ("PATCH", "repos/org/repo/issues/comments/7"),
    ]
    mark = (runner.folder / "posted.md").read_text().splitlines()[0]
    (runner.folder / "comments.tsv").write_text(f"6\tmallory\t{mark}\n")
    assert runner.comment(command="plan", **preview).returncode == 0
    assert "--method POST" in (runner.folder / "gh.log").read_text().splitlines()[-1], "not mallory's comment"
    deployed = runner.action(command="up", **preview)
    assert deployed.returncode == 0, deployed.stderr
    assert endpoints(aws) == ["echo-pr-12"]
    for _ in range(2):
        assert runner.action(command="down", name="echo-pr-12").returncode == 0
    assert endpoints(aws) == []


def test_action_stops_at_an_error(aws: Emulated, runner: Runner) -> None:
    dear = runner.action(command="up", recipe="recipe.yaml", max_hourly="0.01")
    assert (dear.returncode, "may cost" in dear.stderr) == (5, True), dear.stderr
    assert "**`lmi up` refuses it**" in (runner.folder / "summary.md").read_text()
    assert runner.action(command="down").returncode == 2
    assert runner.action(command="destroy").returncode == 2
    injected = runner.action(command="validate", recipe="$(touch owned)\nrecipe.yaml")
    assert injected.returncode == 2
    assert not (runner.folder / "owned").exists()
    (runner.folder / "recipe.yaml").write_text(RECIPE + "engien: vllm\n")
    wrong = runner.action(command="validate", recipe="recipe.yaml")
    assert (wrong.returncode, "::error file=recipe.yaml,line=7" in wrong.stdout) == (2, True), wrong.stdout
    assert endpoints(aws) == []


MISSED = "--prompts prompts.jsonl --requests 4 --concurrency 1 --objective p50_ms=0.001"


def test_action_rolls_back_or_removes_what_misses_its_objective(aws: Emulated, runner: Runner) -> None:
    (runner.folder / "prompts.jsonl").write_text('{"body": {"inputs": "OK"}}\n')
    first = runner.action(command="up", recipe="recipe.yaml", bench=MISSED)
    assert first.returncode == 7, first.stdout + first.stderr
    # There is nothing to go back to: it stays, and that is said.
    assert "::warning title=lmi::echo was not rolled back" in first.stdout
    assert endpoints(aws) == ["echo"]
    config = served(aws)
    (runner.folder / "recipe.yaml").write_text(RECIPE.replace("ml.m5.xlarge", "ml.m5.2xlarge"))
    kept = runner.action(command="up", recipe="recipe.yaml", bench=MISSED, on_missed="keep")
    assert (kept.returncode, served(aws) != config) == (7, True), kept.stdout + kept.stderr
    # Nothing was deployed by this run, so that nothing is taken back.
    again = runner.action(command="up", recipe="recipe.yaml", bench=MISSED)
    assert (again.returncode, served(aws) != config) == (7, True), again.stdout + again.stderr
    config = served(aws)
    (runner.folder / "recipe.yaml").write_text(RECIPE)
    back = runner.action(command="up", recipe="recipe.yaml", bench=MISSED)
    assert (back.returncode, served(aws)) == (7, config), back.stdout + back.stderr
    removed = runner.action(command="up", recipe="recipe.yaml", bench=MISSED, on_missed="down")
    assert (removed.returncode, endpoints(aws)) == (7, []), removed.stdout + removed.stderr
    assert "FAIL" in (runner.folder / "summary.md").read_text()


def served(aws: Emulated) -> str:
    """The configuration of the endpoint."""
    return str(aws.client("sagemaker").describe_endpoint(EndpointName="echo")["EndpointConfigName"])


def gitlab() -> tuple[dict[str, Any], dict[str, Any]]:
    header, jobs = yaml.safe_load_all((ROOT / "ci" / "gitlab.yml").read_text())
    return header["spec"]["inputs"], jobs


def test_gitlab_jobs_plan_preview_deploy_and_remove(aws: Emulated, runner: Runner) -> None:
    inputs, jobs = gitlab()
    given = {"recipe": "recipe.yaml", "name": "echo", "role": "arn:aws:iam::123456789012:role/ci"}
    values = {key: given.get(key, declared.get("default", "")) for key, declared in inputs.items()}
    variables = {
        name: re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda found: values[found[1]], value)
        for name, value in jobs[".lmi"]["variables"].items()
        if name.startswith("LMI_")
    } | {"CI_MERGE_REQUEST_IID": "3"}

    def job(name: str) -> None:
        ran = runner.run("\n".join(jobs[name]["script"]), variables)
        assert ran.returncode == 0, ran.stderr

    job("lmi-validate")
    assert (runner.folder / "gl-code-quality-report.json").read_text().strip() == "[]"
    job("lmi-plan")
    assert (runner.folder / "plan.md").read_text().startswith("### `echo`: ")
    job("lmi-preview")
    job("lmi-deploy")
    assert sorted(endpoints(aws)) == ["echo", "echo-mr-3"]
    job("lmi-preview-end")
    assert endpoints(aws) == ["echo"]
    assert runner.action(command="down", name="echo").returncode == 0


def test_buildspec_plans_previews_deploys_and_removes(aws: Emulated, runner: Runner) -> None:
    spec = yaml.safe_load((ROOT / "ci" / "buildspec.yml").read_text())
    (script,) = spec["phases"]["build"]["commands"]
    variables = spec["env"]["variables"] | {"LMI_RECIPE": "recipe.yaml", "LMI_NAME": "echo"}

    def build(event: str, **more: str) -> int:
        webhook = {"CODEBUILD_WEBHOOK_EVENT": event, "CODEBUILD_WEBHOOK_TRIGGER": "pr/7"}
        return runner.run(script, {**variables, **webhook, **more}).returncode

    assert build("PULL_REQUEST_CREATED") == 0
    assert endpoints(aws) == []
    assert 'failures="0"' in (runner.folder / "lmi-validate.xml").read_text()
    assert build("PULL_REQUEST_UPDATED", LMI_PREVIEW="true") == 0
    assert build("PUSH") == 0
    assert sorted(endpoints(aws)) == ["echo", "echo-pr-7"]
    assert build("PULL_REQUEST_MERGED") == 0
    assert endpoints(aws) == ["echo"]
    assert build("") == 2
    assert runner.action(command="down", name="echo").returncode == 0
