"""The index of this machine's deployments on SageMaker: added, listed, discarded, damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.domain.dataclass_json import dump
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import UsageRefused
from lmi_deploy.state.deployment_index import DeploymentIndexFolder

ONE, TWO = "111122223333", "444455556666"
HERE = DeploymentRef(name="chat", target="sagemaker", region="us-east-1", bucket="b", account=ONE)
OTHER_REGION = replace(HERE, region="eu-west-1")
OTHER = replace(HERE, account=TWO)


def older(root: Path, ref: DeploymentRef) -> Path:
    """As versions wrote it that did not store the account."""
    fields = {key: value for key, value in dump(ref).items() if key != "account"}
    path = root / f"{ref.name}.{ref.region}.json"
    path.write_text(json.dumps(fields))
    return path


def test_index_has_one_entry_per_name_region_and_account(tmp_path: Path) -> None:
    kept = DeploymentIndexFolder(tmp_path / "elsewhere")
    assert kept.all() == ()
    for ref in (HERE, OTHER_REGION, OTHER, HERE):
        kept.add(ref)
    assert kept.all() == (OTHER_REGION, HERE, OTHER)
    kept.discard(OTHER_REGION)
    kept.discard(OTHER_REGION)
    assert kept.all() == (HERE, OTHER)
    kept.discard(HERE)
    assert kept.all() == (OTHER,)


def test_older_entry_gets_its_account_from_the_bucket_name(tmp_path: Path) -> None:
    kept = DeploymentIndexFolder(tmp_path)
    path = older(tmp_path, replace(HERE, bucket=f"lmi-{ONE}-us-east-1-an"))
    (ref,) = kept.all()
    assert ref.account == ONE
    kept.discard(OTHER)
    assert kept.all() == (ref,)
    kept.add(ref)
    assert kept.all() == (ref,)
    assert not path.exists()


def test_older_entry_without_account_is_discarded_only_with_its_bucket(tmp_path: Path) -> None:
    kept = DeploymentIndexFolder(tmp_path)
    older(tmp_path, HERE)
    (ref,) = kept.all()
    assert ref.account == ""
    kept.discard(replace(HERE, bucket="another"))
    assert kept.all() == (ref,)
    kept.discard(HERE)
    assert kept.all() == ()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": 1}', "\0" * 40, "[" * 100_000])
def test_of_a_damaged_entry_the_name_of_its_file_counts(tmp_path: Path, content: str) -> None:
    kept = DeploymentIndexFolder(tmp_path)
    kept.add(HERE)
    kept.add(OTHER)
    (tmp_path / f"chat.us-east-1.{ONE}.json").write_text(content)
    (tmp_path / "other.us-east-1.json").write_text(content)
    (tmp_path / "notes.json").write_text(content)
    old = DeploymentRef(name="other", target="sagemaker", region="us-east-1")
    assert kept.all() == (replace(HERE, bucket=""), OTHER, old)
    kept.add(HERE)
    kept.discard(old)
    assert kept.all() == (HERE, OTHER)


@pytest.mark.parametrize("ref", [("../x", "us-east-1"), ("x", "../us"), ("x", "")])
@pytest.mark.parametrize("account", ["", ONE, "../1"])
def test_invalid_name_creates_no_path(tmp_path: Path, ref: tuple[str, str], account: str) -> None:
    unsupported = DeploymentRef(name=ref[0], target="sagemaker", region=ref[1], account=account)
    with pytest.raises(UsageRefused):
        DeploymentIndexFolder(tmp_path).add(unsupported)
