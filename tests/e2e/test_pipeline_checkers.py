"""The files for pipelines and the reports of `lmi validate`, by other people's checkers: check-jsonschema has the
schemas of GitHub and GitLab (from SchemaStore and GitLab), actionlint knows GitHub's
expressions and the inputs of actions, sarif-pydantic and junitparser read reports.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.ci_runner import gitlab_jobs
from tests.support.clients import pipeline_checkers
from tests.support.go_programs import GoProgram

pytestmark = pytest.mark.landing

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "run-in-ci.md"
READER = Path(__file__).parent / "clients" / "read_reports.py"
LMI = str(Path(sys.executable).with_name("lmi"))
ACTIONLINT = GoProgram("github.com/rhysd/actionlint/cmd/actionlint", "v1.7.7")


def workflow(language: str = "yaml") -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(text)


def conforms(schema: str, file: Path) -> subprocess.CompletedProcess[str]:
    checker = str(pipeline_checkers() / "check-jsonschema")
    # The expressions of some schemas are written in the dialect of browsers without the flag u.
    command = [checker, "--no-cache", "--regex-variant", "nonunicode", "--builtin-schema", f"vendor.{schema}"]
    return subprocess.run([*command, str(file)], text=True, capture_output=True, check=False)


def test_pipeline_files_conform_to_their_schemas(tmp_path: Path) -> None:
    (tmp_path / "deploy.yml").write_text(workflow())
    for schema, file in (
        ("github-actions", ROOT / "action.yml"),
        ("github-workflows", tmp_path / "deploy.yml"),
    ):
        checked = conforms(schema, file)
        assert checked.returncode == 0, checked.stdout
    for schema, language in (
        ("circle-ci", "circleci"),
        ("buildkite", "buildkite"),
        ("azure-pipelines", "azure"),
    ):
        (tmp_path / "example.yml").write_text(workflow(language))
        checked = conforms(schema, tmp_path / "example.yml")
        assert checked.returncode == 0, checked.stdout
    # A component has two documents: what it takes, and its jobs, after GitLab has put the inputs in.
    spec, _ = (ROOT / "ci" / "gitlab.yml").read_text("utf-8").split("\n---\n")
    jobs = yaml.safe_dump(gitlab_jobs({"recipe": "r.yaml", "name": "n", "package": "p", "role": "r"}))
    for name, text in (("spec", spec), ("jobs", jobs)):
        (tmp_path / f"{name}.gitlab-ci.yml").write_text(text)
        checked = conforms("gitlab-ci", tmp_path / f"{name}.gitlab-ci.yml")
        assert checked.returncode == 0, checked.stdout


def test_wrong_pipeline_file_does_not_conform(tmp_path: Path) -> None:
    wrong = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    del wrong["runs"]["using"]
    (tmp_path / "action.yml").write_text(yaml.safe_dump(wrong))
    assert conforms("github-actions", tmp_path / "action.yml").returncode == 1


@pytest.mark.skipif(bool(ACTIONLINT.missing()), reason=ACTIONLINT.missing())
def test_workflow_passes_actionlint(tmp_path: Path) -> None:
    """With the action in the same repository, so that actionlint checks the inputs, too."""
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "action.yml").write_text((ROOT / "action.yml").read_text("utf-8"))
    good = workflow().replace("YOUR-ORG/lmi-deploy@v1", "./")
    for text, expected in (
        (good, ""),
        (good.replace("max-hourly:", "max-hourley:", 1), 'input "max-hourley" is not defined'),
        (good.replace("github.event_name", "github.even_name", 1), "even_name"),
    ):
        (folder / "deploy.yml").write_text(text)
        checked = subprocess.run(
            [str(ACTIONLINT.path()), "-no-color"], cwd=tmp_path, text=True, capture_output=True, check=False
        )
        assert (checked.returncode == 0) == (expected == ""), checked.stdout
        assert expected in checked.stdout


def test_reports_of_validate_are_read_by_other_programs(tmp_path: Path) -> None:
    recipe = (ROOT / "recipes" / "quickstart.yaml").read_text("utf-8")
    (tmp_path / "good.yaml").write_text(recipe)
    (tmp_path / "bad <&> é.yaml").write_text(recipe + 'unknown: "<b>"\n')
    lines = recipe.count("\n") + 1
    for name in ("sarif", "junit", "gitlab"):
        made = subprocess.run(
            [LMI, "validate", "good.yaml", "bad <&> é.yaml", "--format", name],
            cwd=tmp_path, text=True, capture_output=True, check=False,
        )  # fmt: skip
        assert made.returncode == 2, made.stderr
        (tmp_path / name).write_text(made.stdout)
    reader = [str(pipeline_checkers() / "python"), str(READER), "sarif", "junit"]
    read = subprocess.run(reader, cwd=tmp_path, text=True, capture_output=True, check=False)
    assert read.returncode == 0, read.stderr
    assert json.loads(read.stdout) == {
        "driver": "lmi",
        "places": [["bad%20%3C%26%3E%20%C3%A9.yaml", lines]],
        "cases": [["good.yaml", []], ["bad <&> é.yaml", ["Failure"]]],
    }
    (entry,) = json.loads((tmp_path / "gitlab").read_text())
    # "Code Quality report format" of docs.gitlab.com/ci/testing/code_quality.
    assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
    assert entry["severity"] in ("info", "minor", "major", "critical", "blocker")
    assert entry["location"] == {"path": "bad <&> é.yaml", "lines": {"begin": lines}}
