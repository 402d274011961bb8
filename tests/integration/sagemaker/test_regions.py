"""`endpoint.regions` against the emulator: two regions with a bucket each, under exactly the printed policies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.emulator_process import ACCOUNT, Emulated
from tests.support.least_privilege import Principal, policies_of, settle

WEST = "us-west-2"
RECIPE = f"""\
name: echo
model_id: ./model
engine: custom
instance_type: ml.m5.xlarge
handler: {{file: model.py}}
probe: {{body: '{{"inputs": "OK"}}'}}
endpoint: {{role: serving, regions: [us-east-1, {WEST}]}}
"""
NO_CAPACITY = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."


@pytest.fixture
def ada(
    enforcing: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Principal]:
    settle(enforcing, monkeypatch, tmp_path)
    Path("r.yaml").write_text(RECIPE)
    principal = Principal(enforcing, capsys, monkeypatch)
    policies_of(principal, "r.yaml")
    principal.enter()
    principal.grant()
    yield principal
    enforcing.no_faults()


def endpoints(aws: Emulated, region: str) -> list[str]:
    sagemaker = replace(aws, region=region, _clients={}).client("sagemaker")
    return [item["EndpointName"] for item in sagemaker.list_endpoints()["Endpoints"]]


def keys(aws: Emulated, region: str, prefix: str) -> list[str]:
    s3 = replace(aws, region=region, _clients={}).client("s3")
    found = s3.list_objects_v2(Bucket=f"lmi-{ACCOUNT}-{region}-an", Prefix=prefix)
    return [item["Key"] for item in found.get("Contents", ())]


def test_next_region_serves_under_the_printed_policies_and_nothing_is_left_in_the_first(
    ada: Principal,
) -> None:
    refusal = {"answer": {"status": 400, "body": NO_CAPACITY}}
    ada.aws.fault({"method": "HOSTING", "path": "^/provision/echo/", "times": 1, "do": refusal})
    code, output = ada.lmi("up", "r.yaml", "--yes")
    assert code == 0, output
    assert f"trying the recipe's next region, {WEST}" in output
    assert "from the bucket in us-east-1" in output
    assert "not copied" not in output
    assert (endpoints(ada.aws, "us-east-1"), endpoints(ada.aws, WEST)) == ([], ["echo"])
    assert keys(ada.aws, WEST, "weights/") == keys(ada.aws, "us-east-1", "weights/") != []
    assert keys(ada.aws, "us-east-1", "artifacts/") == keys(ada.aws, "us-east-1", "deployments/") == []
    code, output = ada.lmi("up", "r.yaml", "--yes")
    assert (code, "nothing to do" in output) == (0, True), output
    code, output = ada.lmi("status", "r.yaml", "--json")
    assert (code, f'"region": "{WEST}"' in output) == (0, True), output
    code, output = ada.lmi("down", "r.yaml", "--yes", "--purge")
    assert code == 0, output
    assert endpoints(ada.aws, WEST) == keys(ada.aws, WEST, "") == []
