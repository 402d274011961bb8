"""The checks of `lmi doctor` on this machine, and their time limit."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lmi_deploy.errors import AccessError, Overdue
from lmi_deploy.errors.install_command import install_command
from lmi_deploy.host.deadline import within
from lmi_deploy.host.setup_checks import (
    container_findings,
    disk_findings,
    extra_findings,
    read_requirements,
    version_findings,
)


def test_requirements_are_read_from_the_metadata() -> None:
    core, marked, extra, own = (
        "boto3>=1.43.1",
        "zlib-ng>=1.0; platform_machine in 'x86_64 arm64'",
        "uvloop>=0.21; (sys_platform != 'win32') and extra == 'bench'",
        "lmi-deploy[local]; extra == 'emulator'",
    )
    found = read_requirements([core, marked, extra, own, 'moto[iam,s3]>=5.2; extra == "emulator"'])
    assert [(one.name, one.least, one.extra, one.conditional) for one in found] == [
        ("boto3", "1.43.1", "", False),
        ("zlib-ng", "1.0", "", True),
        ("uvloop", "0.21", "bench", True),
        ("moto", "5.2", "emulator", False),
    ]


def test_installed_core_is_complete() -> None:
    assert {finding.state for finding in version_findings()} == {"ok"}


def test_extra_that_the_recipe_needs_is_broken_if_it_is_absent() -> None:
    needed = extra_findings({"sagemaker": "which the test needs"})
    found = [finding for finding in needed if finding.state == "broken"]
    unneeded = [finding.state for finding in extra_findings({})]
    assert {*unneeded} == {"ok"}
    if found:  # sagemaker-core is in no environment of the tests but one
        assert found[0].remedy == install_command("sagemaker")
        assert "sagemaker-core is not installed" in found[0].text


def test_folder_that_cannot_be_written_is_broken(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    below = tmp_path / "a file" / "lmi"
    found = [*disk_findings({"state": tmp_path / "new", "cache": below})]
    assert found[0].state == "broken"
    assert found[0].text == f"cache: {below} cannot be written"
    assert "free for state" in found[1].text


@pytest.mark.parametrize(
    ("program", "state", "text"),
    [
        ("#!/bin/sh\necho fine", "ok", "docker answers"),
        ("#!/bin/sh\necho 'no daemon' >&2; exit 1", "broken", "docker does not answer: no daemon"),
    ],
)
def test_container_engine_must_answer(tmp_path: Path, program: str, state: str, text: str) -> None:
    path = tmp_path / "docker"
    path.write_text(program)
    path.chmod(0o755)
    (found,) = container_findings("docker", str(path), {}, required=True)
    assert found.state == state
    assert text in found.text


def test_call_that_hangs_is_left_behind() -> None:
    release = threading.Event()
    with pytest.raises(Overdue, match=r"AWS: no response within 0\.05 s"):
        within(0.05, "AWS", release.wait)
    release.set()


def test_call_within_its_limit_gives_its_result_or_its_error() -> None:
    def refuse() -> None:
        raise AccessError("refused")

    assert within(5, "AWS", lambda: 3) == 3
    with pytest.raises(AccessError, match="refused"):
        within(5, "AWS", refuse)
