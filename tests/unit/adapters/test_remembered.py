"""What was brought up elsewhere from this machine: kept, listed, forgotten; a broken file costs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmi_deploy.adapters.remembered import RememberedFolder
from lmi_deploy.core.record import DeploymentRef
from lmi_deploy.errors import UsageRefused

HERE = DeploymentRef(name="chat", target="sagemaker", region="us-east-1", bucket="b")
THERE = DeploymentRef(name="chat", target="sagemaker", region="eu-west-1", bucket="b")


def test_one_a_name_and_region(tmp_path: Path) -> None:
    kept = RememberedFolder(tmp_path / "elsewhere")
    assert kept.all() == ()
    for ref in (HERE, THERE, HERE):
        kept.keep(ref)
    assert kept.all() == (THERE, HERE)
    kept.drop(THERE)
    kept.drop(THERE)
    assert kept.all() == (HERE,)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": 1}'])
def test_what_cannot_be_read_is_passed_over(tmp_path: Path, content: str) -> None:
    kept = RememberedFolder(tmp_path)
    kept.keep(HERE)
    (tmp_path / "other.us-east-1.json").write_text(content)
    assert kept.all() == (HERE,)


@pytest.mark.parametrize("ref", [("../x", "us-east-1"), ("x", "../us"), ("x", "")])
def test_no_path_is_made_of_what_is_no_name(tmp_path: Path, ref: tuple[str, str]) -> None:
    strange = DeploymentRef(name=ref[0], target="sagemaker", region=ref[1])
    with pytest.raises(UsageRefused):
        RememberedFolder(tmp_path).keep(strange)
