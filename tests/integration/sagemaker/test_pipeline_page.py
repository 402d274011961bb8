"""docs/how-to/run-in-ci.md is right: the commands of its examples run unchanged against the emulator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.ci_runner import CiRunner
from tests.support.emulator_process import Emulated

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "run-in-ci.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def texts(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        yield from (text for value in found.values() for text in texts(value))
    elif isinstance(found, list):
        yield from (text for value in found for text in texts(value))
    else:
        yield str(found)


def example(system: str) -> tuple[list[str], dict[str, str]]:
    """Its commands that run `lmi`, and the variables that it sets."""
    (text,) = blocks(system)
    if system == "groovy":
        commands = re.findall(r"sh '([^']*lmi [^']*)'", text)
        variables = dict(re.findall(r"(LMI_\w+) = '([^']*)'", text))
    else:
        loaded = yaml.safe_load(text)
        commands = [one for one in texts(loaded) if "lmi pipeline" in one]
        variables = dict(re.findall(r'(LMI_\w+): "?([^,"}]*)', text))
    commands = [
        one.replace("<< parameters.job >>", job)
        for one in commands
        for job in (("plan", "up") if "<<" in one else ("",))
    ]
    return commands, {**variables, "LMI_PIPELINE_RECIPE": "recipe.yaml"}


@pytest.mark.landing
@pytest.mark.parametrize("system", ["groovy", "circleci", "buildkite", "azure"])
def test_example_of_another_system_plans_and_deploys(aws: Emulated, tmp_path: Path, system: str) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    runner = CiRunner.of(aws, folder)
    commands, variables = example(system)
    assert commands == ["exec lmi pipeline plan", "exec lmi pipeline up"]
    for command in (*commands, "exec lmi pipeline down"):
        done = runner.run(command, variables)
        assert done.code == 0, done.log
    assert (folder / "plan.md").read_text().startswith("### `echo`: ")
    assert aws.client("sagemaker").list_endpoints()["Endpoints"] == []


def test_workflow_gives_the_action_inputs_that_it_has() -> None:
    (workflow,) = [yaml.safe_load(text) for text in blocks("yaml")]
    inputs = yaml.safe_load((PAGE.parents[2] / "action.yml").read_text())["inputs"]
    jobs = workflow["jobs"].values()
    steps = [step for job in jobs for step in job["steps"] if "lmi-deploy" in step["uses"]]
    assert [step["with"]["command"] for step in steps] == ["validate", "plan", "up", "down", "up"]
    assert all(set(step["with"]) <= set(inputs) for step in steps)


def test_every_input_of_the_action_is_one_of_the_command() -> None:
    """And has its variable in the page, so that other systems have it, too."""
    action = yaml.safe_load((PAGE.parents[2] / "action.yml").read_text())
    (step,) = [one for one in action["runs"]["steps"] if one.get("id") == "lmi"]
    given = {value[len("${{ inputs.") : -len(" }}")]: name for name, value in step["env"].items()}
    assert given.pop("command") == "COMMAND"
    of_the_action = {"comment", "token", "install", "command"}
    assert given.keys() == action["inputs"].keys() - of_the_action
    for name, variable in given.items():
        assert variable == f"LMI_PIPELINE_{name.upper().replace('-', '_')}"
