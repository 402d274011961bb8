"""The command that adds an extra, for each source that lmi can be installed from (PEP 610)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmi_deploy.errors import NotInstalled
from lmi_deploy.errors.install_command import _requirement, install_command

GIT = {"vcs": "git", "commit_id": "0a1b2c"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (None, "'lmi-deploy[bench]'"),
        ({"url": "file:///home/a%20b/lmi", "dir_info": {"editable": True}}, "-e '/home/a b/lmi[bench]'"),
        ({"url": "file:///srv/lmi", "dir_info": {}}, "'/srv/lmi[bench]'"),
        ({"url": "file:///srv/lmi.whl", "archive_info": {}}, "'lmi-deploy[bench] @ file:///srv/lmi.whl'"),
        (
            {"url": "https://git.example/lmi", "vcs_info": GIT},
            "'lmi-deploy[bench] @ git+https://git.example/lmi@0a1b2c'",
        ),
    ],
)
def test_requirement_names_the_source_of_the_installation(source: Any, expected: str) -> None:
    assert _requirement(json.dumps(source) if source else None, "bench") == expected


def test_command_without_extra_upgrades_what_lmi_always_needs() -> None:
    assert _requirement(None, "") == "lmi-deploy"
    command = install_command()
    assert command.startswith(f"{sys.executable} -m pip install --upgrade ")
    assert command.endswith(str(Path(__file__).resolve().parents[2]))


def test_this_checkout_is_installed_again_with_the_extra() -> None:
    command = install_command("bench")
    assert command.startswith(f"{sys.executable} -m pip install ")
    assert f"{Path(__file__).resolve().parents[2]}[bench]" in command
    assert command in NotInstalled("tokenizers").hint


def test_pipeline_templates_install_nothing_by_default() -> None:
    """`lmi` is not on PyPI: a stranger may register the name there, and would run code with the deployer's role."""
    root = Path(__file__).resolve().parents[2]
    spec, _ = yaml.safe_load_all((root / "ci" / "gitlab.yml").read_text("utf-8"))
    assert "default" not in spec["spec"]["inputs"]["package"]
    build = yaml.safe_load((root / "ci" / "buildspec.yml").read_text("utf-8"))
    assert build["env"]["variables"]["LMI_PACKAGE"] == ""
    [install] = build["phases"]["install"]["commands"]
    done = subprocess.run(
        ["bash", "-c", install], env={"LMI_PACKAGE": ""}, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "LMI_PACKAGE: set it to what pip installs" in done.stderr
