"""Processing jobs, run as real processes by the emulator: started once, watched, stopped, and read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lmi_deploy.domain.sagemaker.transfer_job import LOAD_INPUT, JobSettings, ObservedJob
from lmi_deploy.errors import Conflict, LmiError
from lmi_deploy.ports.cloud import Cloud
from tests.support.emulator_process import ACCOUNT, IMAGE, Emulated, emulator
from tests.support.sagemaker_fixtures import FULL_SPEED, TAGS

TIMEOUT = 60.0
PRINTING_HANDLER = """
import os, pathlib, sys
root = pathlib.Path(os.environ["LMI_OPT_ML"])
(root / "output").mkdir(exist_ok=True)
(root / "output" / "message").write_text("moved " + os.environ["KEY"])
print("this is", sorted(os.listdir(sys.argv[1])))
"""


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("jobs"), *FULL_SPEED, containers=True) as running:
        yield running


def settings(aws: Emulated, program: str, **more: Any) -> JobSettings:
    place = "/opt/ml/processing/input/ours"
    requests = {
        "role": aws.role(),
        "image": IMAGE,
        "instance": "ml.m5.large",
        "count": 1,
        "volume_gb": 30,
        "command": ("python3", f"{place}/run.py", place),
        "environment": (("KEY", "value"),),
        "inputs": (("ours", aws.upload(f"jobs/{len(program)}", {"run.py": program}), place),),
        "timeout": 3600,
        **more,
    }
    return JobSettings(**requests)


def ended(cloud: Cloud, name: str) -> ObservedJob:
    deadline = time.monotonic() + TIMEOUT
    while (observed := cloud.jobs.job(name)) is not None and observed.status in ("InProgress", "Stopping"):
        assert time.monotonic() < deadline, observed
        time.sleep(0.05)
    assert observed is not None
    return observed


def test_job_runs_once_and_reports_its_outcome(aws: Emulated, cloud: Cloud) -> None:
    assert cloud.jobs.job("move") is None
    assert list(cloud.jobs.lines("move")) == []
    requests = settings(aws, PRINTING_HANDLER)
    cloud.jobs.start("move", requests, TAGS)
    with pytest.raises(Conflict, match="processing job move: it already exists"):
        cloud.jobs.start("move", requests, TAGS)
    observed = ended(cloud, "move")
    assert (observed.status, observed.message, observed.reason) == ("Completed", "moved value", "")
    assert list(cloud.jobs.lines("move")) == ["this is ['run.py']"]
    assert [(item.kind, item.name) for item in cloud.tagged.of("chat")] == [("processing-job", "move")]
    cloud.jobs.stop("move")


def test_failed_job_explains_why(aws: Emulated, cloud: Cloud) -> None:
    cloud.jobs.start("fails", settings(aws, "raise SystemExit('no more disk')"), TAGS)
    observed = ended(cloud, "fails")
    assert observed.status == "Failed"
    assert observed.reason
    assert "no more disk" in "\n".join(cloud.jobs.lines("fails"))


def test_job_with_an_encrypted_volume_needs_kms_create_grant(aws: Emulated, cloud: Cloud) -> None:
    """SageMaker demands kms:CreateGrant of the job's role, and takes no key where the instance has local disks."""
    key = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/1"
    cloud.jobs.start("sealed", settings(aws, PRINTING_HANDLER, kms_key=key), TAGS)
    assert "is not authorized to perform: kms:CreateGrant" in ended(cloud, "sealed").reason
    statement = {"Effect": "Allow", "Action": "kms:CreateGrant", "Resource": key}
    aws.client("iam").put_role_policy(
        RoleName="execution",
        PolicyName="lend",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
    )
    cloud.jobs.start("sealed-2", settings(aws, PRINTING_HANDLER, kms_key=key), TAGS)
    assert ended(cloud, "sealed-2").status == "Completed"
    with pytest.raises(LmiError, match="it has local storage"):
        cloud.jobs.start(
            "sealed-3", settings(aws, PRINTING_HANDLER, kms_key=key, instance="ml.r5d.large"), TAGS
        )


def test_job_can_be_stopped(aws: Emulated, cloud: Cloud) -> None:
    cloud.jobs.start("long", settings(aws, "import time; time.sleep(600)"), TAGS)
    assert cloud.jobs.running() == {"long"}
    assert cloud.optimizations.running() == frozenset()
    cloud.jobs.stop("long")
    cloud.jobs.stop("long")
    assert ended(cloud, "long").status == "Stopped"
    assert cloud.jobs.running() == frozenset()
    cloud.jobs.stop("nobody")


def test_ended_job_is_deleted_and_its_name_is_free_again(aws: Emulated, cloud: Cloud) -> None:
    requests = settings(aws, "print('once')")
    cloud.jobs.delete("again")
    for _ in range(2):
        cloud.jobs.start("again", requests, TAGS)
        assert ended(cloud, "again").status == "Completed"
        cloud.jobs.delete("again")
        assert cloud.jobs.job("again") is None


def test_job_that_sends_load_is_recognized_by_its_input(aws: Emulated, cloud: Cloud) -> None:
    place = "/opt/ml/processing/input/load"
    program = aws.upload("jobs/load", {"run.py": "print('sent')"})
    requests = settings(
        aws, "", inputs=((LOAD_INPUT, program, place),), command=("python3", f"{place}/run.py")
    )
    cloud.jobs.start("sends", requests, TAGS)
    assert ended(cloud, "sends").purpose == "load"
    cloud.jobs.start("moves", settings(aws, "print('moved')"), TAGS)
    assert ended(cloud, "moves").purpose == "transfer"
