"""A CI runner: a workspace with a repository that has one recipe, a fresh machine for each job, and the shell, files,
variables and signals of the vendor's own runner.

Sources: GitHub, "Workflow syntax: defaults.run.shell" (bash --noprofile --norc -eo pipefail), "Default environment
variables", and actions/runner, ProcessInvoker.cs (SIGINT to the process of the step alone, after 7.5 s SIGTERM, 2.5 s
later SIGKILL); GitLab, "Predefined CI/CD variables"; CodeBuild, "Environment variables in build environments".
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import yaml

from tests.support.emulator_process import Emulated
from tests.support.least_privilege import HANDLER, write_model

ROOT: Final = Path(__file__).resolve().parents[2]
RECIPE = """\
name: echo
model_id: ./model
engine: custom
instance_type: ml.m5.xlarge
handler: {file: model.py}
probe: {body: '{"inputs": "OK"}'}
"""
GH: Final = """\
#!/usr/bin/env bash
# Stands in for GitHub's `gh api`: keeps the last comment in posted.md, and id, author and first line of all in a list.
cd "$GH_HOME"
echo "$@" >> gh.log
touch comments.tsv
case "$*" in
  *graphql*) echo 'github-actions[bot]' ;;
  *--jq*) cat comments.tsv ;;
  *) cp "$(echo "$*" | sed 's/.*body=@//')" posted.md
     id=$(echo "$*" | sed -n 's/.*comments\\/\\([0-9]*\\) .*/\\1/p')
     if [ -z "$id" ]; then
       printf '7\\tgithub-actions[bot]\\t%s\\n' "$(sed -n 1p posted.md)" >> comments.tsv
     fi ;;
esac
"""
GRACE: Final = 7.5
"""Seconds from SIGINT to SIGTERM; then 2.5 s to SIGKILL."""


@dataclass(frozen=True)
class CiRunner:
    folder: Path
    environment: dict[str, str]
    jobs: list[int] = field(default_factory=list)
    finished: ClassVar[Callable[[str], object]] = print
    """Gets the log of each job."""

    @classmethod
    def of(cls, aws: Emulated, folder: Path, **more: str) -> Self:
        write_model(folder / "model")
        (folder / "model.py").write_text(HANDLER)
        (folder / "recipe.yaml").write_text(RECIPE)
        programs = folder.parent / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "gh").write_text(GH)
        (programs / "gh").chmod(0o755)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "LMI_"))}
        return cls(
            folder, {**kept, **aws.environment(folder), **more, "GH_HOME": str(folder.parent), "PATH": path}
        )

    def elsewhere(self, folder: Path) -> Self:
        """The same repository in another workspace, on another machine."""
        write_model(folder / "model")
        (folder / "model.py").write_text(HANDLER)
        (folder / "recipe.yaml").write_text((self.folder / "recipe.yaml").read_text())
        return replace(self, folder=folder)

    def begin(self, script: str, variables: Mapping[str, str], *flags: str) -> subprocess.Popen[str]:
        """A job on a fresh machine: no state is left of an earlier one."""
        self.jobs.append(len(self.jobs))
        home = self.folder.parent / f"machine-{len(self.jobs)}"
        home.mkdir()
        return subprocess.Popen(
            ["bash", *flags, "-c", script],
            cwd=self.folder,
            env={**self.environment, "LMI_STATE_HOME": str(home), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, script: str, variables: Mapping[str, str], *flags: str) -> Done:
        process = self.begin(script, variables, *flags)
        output, _ = process.communicate(timeout=180)
        CiRunner.finished(output)
        return Done(process.returncode, output)


@dataclass(frozen=True)
class Done:
    code: int
    log: str
    """stdout and stderr, as a CI system shows them."""
    outputs: Mapping[str, str] = field(default_factory=dict)


def cancelled(process: subprocess.Popen[str]) -> tuple[Done, float]:
    """As GitHub cancels a job; and the seconds until its end."""
    started = time.monotonic()
    for number, seconds in ((signal.SIGINT, GRACE), (signal.SIGTERM, 2.5), (signal.SIGKILL, 30.0)):
        process.send_signal(number)
        try:
            output, _ = process.communicate(timeout=seconds)
            break
        except subprocess.TimeoutExpired:
            continue
    CiRunner.finished(output)
    return Done(process.returncode, output), time.monotonic() - started


@cache
def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return found


class GitHub(CiRunner):
    """The step of action.yml that runs `lmi`, and the one that writes the comment."""

    def use(self, **inputs: str) -> Done:
        number = len(self.jobs)
        process = self.begun(**inputs)
        output, _ = process.communicate(timeout=180)
        CiRunner.finished(output)
        written = (self.folder.parent / f"output-{number}").read_text()
        outputs = dict(line.partition("=")[::2] for line in written.splitlines())
        return Done(process.returncode, output, outputs)

    def begun(self, **inputs: str) -> subprocess.Popen[str]:
        number = len(self.jobs)
        (self.folder.parent / f"output-{number}").touch()
        return self.begin(*self._step("lmi", inputs, number), *GITHUB_BASH)

    def comment(self, done: Done, **inputs: str) -> Done:
        variables = {"COMMENT": done.outputs["comment"]} if "comment" in done.outputs else None
        assert variables, done.log
        script, known = self._step("", inputs, len(self.jobs))
        return self.run(script, {**known, **variables}, *GITHUB_BASH)

    def _step(self, name: str, inputs: Mapping[str, str], number: int) -> tuple[str, dict[str, str]]:
        given = {key: str(declared.get("default", "")) for key, declared in action()["inputs"].items()}
        unknown = {key.replace("_", "-") for key in inputs} - given.keys()
        assert not unknown, unknown
        given |= {key.replace("_", "-"): value for key, value in inputs.items()}
        step = next(one for one in action()["runs"]["steps"][2:] if one.get("id", "") == name)
        assert "${{" not in step["run"]
        variables = {
            key: given[found[1]] if (found := re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value)) else "12"
            for key, value in step["env"].items()
        }
        above = self.folder.parent
        return step["run"], {
            **variables,
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self.folder),
            "GITHUB_SHA": "0123456789abcdef",
            "GITHUB_REPOSITORY": "org/repo",
            "GITHUB_STEP_SUMMARY": str(above / "summary.md"),
            "GITHUB_OUTPUT": str(above / f"output-{number}"),
            "RUNNER_TEMP": str(above / "temp"),
        }


GITHUB_BASH: Final = ("--noprofile", "--norc", "-e", "-o", "pipefail")


class GitLab(CiRunner):
    """The jobs of ci/gitlab.yml, as an `include` with these inputs gives them."""

    def job(self, name: str, inputs: Mapping[str, str], **predefined: str) -> Done:
        return self.run(*self.shell(name, inputs, **predefined), "-e", "-o", "pipefail")

    def shell(self, name: str, inputs: Mapping[str, str], **predefined: str) -> tuple[str, dict[str, str]]:
        """The script of a job, and its variables."""
        jobs = gitlab_jobs(inputs)
        job, base = jobs[name], jobs[jobs[name]["extends"]]
        values = {**base["variables"], **job.get("variables", {})}
        values = {key: value for key, value in values.items() if key.startswith("LMI_")}
        known = {"GITLAB_CI": "true", "CI_PROJECT_DIR": str(self.folder), **predefined}
        expanded = {
            key: re.sub(r"\$(\w+)", lambda found: known.get(found[1], ""), str(value))
            for key, value in values.items()
        }
        return "\n".join(job["script"]), {**known, **expanded}


def gitlab_jobs(inputs: Mapping[str, str]) -> dict[str, Any]:
    header, text = (ROOT / "ci" / "gitlab.yml").read_text().split("\n---\n")
    declared = yaml.safe_load(header)["spec"]["inputs"]
    values = {key: inputs.get(key, one.get("default", "")) for key, one in declared.items()}
    jobs: dict[str, Any] = yaml.safe_load(
        re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda found: str(values[found[1]]), text)
    )
    return jobs


class CodeBuild(CiRunner):
    def build(self, event: str = "", trigger: str = "", **more: str) -> Done:
        done = self.run(*self.job(event, trigger, **more))
        spec = yaml.safe_load((ROOT / "ci" / "buildspec.yml").read_text())
        missing = [file for file in spec["artifacts"]["files"] if not (self.folder / file).exists()]
        assert not missing, "CodeBuild fails a project with S3 artifacts"
        return done

    def job(self, event: str = "", trigger: str = "", **more: str) -> tuple[str, dict[str, str]]:
        """The shell of a build, and its variables."""
        spec = yaml.safe_load((ROOT / "ci" / "buildspec.yml").read_text())
        (script,) = spec["phases"]["build"]["commands"]
        webhook = {"CODEBUILD_WEBHOOK_EVENT": event, "CODEBUILD_WEBHOOK_TRIGGER": trigger} if event else {}
        system = {"CODEBUILD_BUILD_ID": "lmi:1", "CODEBUILD_SRC_DIR": str(self.folder)}
        own = {"LMI_PIPELINE_RECIPE": "recipe.yaml", "LMI_PIPELINE_NAME": "echo"}
        return script, {**system, **spec["env"]["variables"], **own, **webhook, **more}
