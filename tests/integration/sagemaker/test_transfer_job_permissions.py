"""The permissions of a transfer job: the printed policies suffice for job, role and secret; each missing one
is reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.aws_requests import listed, recorded
from tests.support.emulator_process import Emulated, emulator
from tests.support.hub import HubModels, HubState, LocalHub, serve_hub
from tests.support.least_privilege import (
    JOB_ROLE,
    SIMULATES,
    Principal,
    ReducedPermissions,
    policies_of,
    settle,
    write_model,
)

pytestmark = pytest.mark.landing

TOKEN = "hub-token-of-the-test"
RECIPE = """\
name: echo
model_id: org/tiny
engine: custom
instance_type: ml.m5.xlarge
handler: {file: model.py}
probe: {body: '{"inputs": "OK"}'}
weights: {via: job, token_secret: hub-token, job: {instance_type: ml.m5.large, role: carrying}}
endpoint: {role: serving}
"""
UP, DOWN = ("up", "r.yaml", "--yes"), ("down", "echo", "--yes", "--purge")
OF_JOBS = ("RunTransferJob", "HandOverJobRole", "HandJobItsOrder", "ReadJobLogs", "FindToken")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    root = tmp_path_factory.mktemp("hub")
    (root / "org").mkdir()
    write_model(root / "org" / "tiny")
    state = HubState(HubModels(root), tokens=frozenset({TOKEN}))
    state.models.scan()
    with serve_hub(state=state) as running:
        yield running


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory, hub: LocalHub) -> Iterator[Emulated]:
    folder, variables = tmp_path_factory.mktemp("aws"), {"HF_ENDPOINT": hub.url}
    arguments = ("--speed", "1000000", "--enforce-iam")
    with emulator(folder, *arguments, containers=True, variables=variables) as aws:
        aws.client("secretsmanager").create_secret(Name="hub-token", SecretString=TOKEN)
        yield aws


@pytest.fixture
def ada(
    enforcing: Emulated,
    hub: LocalHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Principal:
    settle(enforcing, monkeypatch, tmp_path)
    for name, value in {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "hf")}.items():
        monkeypatch.setenv(name, value)
    Path("r.yaml").write_text(RECIPE)
    principal = Principal(enforcing, capsys, monkeypatch)
    policies_of(principal, "r.yaml")
    principal.enter()
    principal.grant()
    return principal


def test_printed_policies_suffice_for_a_transfer_job(ada: Principal) -> None:
    for command in (UP, DOWN):
        code, output = ada.lmi(*command)
        assert code == 0, output
        assert "not authorized" not in output
        assert "not checked" not in output
    assert recorded() - listed() == set()
    assert "sagemaker CreateProcessingJob" in recorded()


@pytest.mark.parametrize(
    "less",
    [
        ReducedPermissions("deployer", "RunTransferJob", "sagemaker:CreateProcessingJob"),
        ReducedPermissions("deployer", "RunTransferJob", "sagemaker:DescribeProcessingJob"),
        ReducedPermissions("deployer", "RunTransferJob", "sagemaker:AddTags"),
        ReducedPermissions("deployer", "HandJobItsOrder", "s3:PutObject"),
        ReducedPermissions("deployer", "HandOverJobRole", "iam:PassRole"),
        ReducedPermissions("job", "ReadToken", "secretsmanager:GetSecretValue"),
        ReducedPermissions("job", "WriteWeights", "s3:PutObject"),
        ReducedPermissions("job", "ReadOrder", "s3:PutObject"),
        ReducedPermissions("job", "LookIntoBucket", "s3:ListBucket"),
    ],
    ids=str,
)
def test_missing_job_permission_fails_and_is_named(ada: Principal, less: ReducedPermissions) -> None:
    ada.grant(less, ReducedPermissions("deployer", "CheckRights", SIMULATES))
    code, output = ada.lmi(*UP)
    ada.grant()
    assert ada.lmi(*DOWN)[0] == 0
    assert code != 0
    assert less.action in output, output


@pytest.mark.parametrize("part", ["deployer", "job"])
def test_every_missing_job_permission_is_reported_by_plan(ada: Principal, part: str) -> None:
    who = ada.name if part == "deployer" else f"role/{JOB_ROLE}"
    checked = [less for less in ada.every(part) if part == "job" or less.sid in OF_JOBS]
    assert len(checked) >= 8
    for less in checked:
        ada.grant(less)
        _, output = ada.lmi("plan", "r.yaml")
        assert less.action in output, (str(less), output)
        assert who in output, (str(less), output)
