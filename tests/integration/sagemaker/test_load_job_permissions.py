"""The permissions of a load job: the printed policies suffice for the user and the job; each missing one is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.aws_requests import listed, recorded
from tests.support.emulator_process import Emulated, emulator
from tests.support.least_privilege import (
    JOB_ROLE,
    Principal,
    ReducedPermissions,
    policies_of,
    settle,
)
from tests.support.talking_handler import RECIPE, TALKING

pytestmark = [pytest.mark.worker, pytest.mark.landing]
BY_JOB = ("--via", "job", "--instances", "2", "--job-role", JOB_ROLE, "--cloudwatch-wait", "0")
BENCH = (
    "bench",
    "talks",
    "--prompts",
    "bodies.jsonl",
    *BY_JOB,
    "--rate",
    "20",
    "--requests",
    "8",
    "--warmup",
    "0",
)
UP, DOWN = ("up", "talks.yaml", "--yes"), ("down", "talks", "--yes", "--purge")


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    arguments = ("--speed", "100000", "--enforce-iam")
    with emulator(tmp_path_factory.mktemp("aws"), *arguments, containers=True) as aws:
        yield aws


@pytest.fixture
def ada(
    enforcing: Emulated,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Principal:
    settle(enforcing, monkeypatch, tmp_path)
    Path("model.py").write_text(TALKING)
    Path("talks.yaml").write_text(
        RECIPE + f"endpoint: {{role: serving}}\nbench: {{via: job, job_role: {JOB_ROLE}}}\n"
    )
    body = {"messages": [{"role": "user", "content": "words 3"}]}
    Path("bodies.jsonl").write_text(json.dumps({"body": body}) + "\n")
    principal = Principal(enforcing, capsys, monkeypatch)
    policies_of(principal, "talks.yaml")
    principal.enter()
    principal.grant()
    return principal


def test_printed_policies_suffice_and_each_missing_one_is_named(ada: Principal) -> None:
    """One deployment for all: each permission of the job, of its role and of its user."""
    assert ada.lmi(*UP)[0] == 0
    code, output = ada.lmi(*BENCH, "--no-stream")
    assert code == 0, output
    assert "not authorized" not in output
    assert "not checked" not in output
    assert recorded() - listed() == set()
    assert {"sagemaker CreateProcessingJob", "sagemaker DeleteProcessingJob"} <= recorded()
    for less in _before_the_job(ada):
        ada.grant(less)
        code, output = ada.lmi(*BENCH, "--no-stream")
        assert code != 0, str(less)
        assert less.action in output, (str(less), output)
    ada.grant()
    assert ada.lmi(*DOWN)[0] == 0


def test_job_that_may_not_be_deleted_costs_no_figure(ada: Principal) -> None:
    assert ada.lmi(*UP)[0] == 0
    ada.grant(ReducedPermissions("deployer", "RunLoadJob", "sagemaker:DeleteProcessingJob"))
    code, output = ada.lmi(*BENCH, "--no-stream")
    assert code == 1, output
    assert "requests/s" in output
    assert "not deleted: the job that sent the load" in output
    assert "sagemaker:DeleteProcessingJob" in output
    ada.grant()
    assert ada.lmi(*DOWN)[0] == 0


def _before_the_job(ada: Principal) -> list[ReducedPermissions]:
    """Those without which no job starts: `lmi` checks what its role needs."""
    of_user = {"HandOverLoadRole", "RunLoadJob", "TalkToLoadJob"}
    late = {"sagemaker:DeleteProcessingJob", "sagemaker:StopProcessingJob", "s3:DeleteObject", "s3:GetObject"}
    mine = [one for one in ada.every("deployer") if one.sid in of_user and one.action not in late]
    job = [one for one in ada.every("load") if one.sid in {"SendLoad", "TalkToLmi", "LookIntoBucket"}]
    assert len(mine) >= 5
    assert len(job) == 5
    return [*mine, *job]
