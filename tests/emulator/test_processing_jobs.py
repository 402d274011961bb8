"""Processing jobs: accepted and refused as by AWS, and run as real processes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.emulator.conftest import FULL_SPEED
from tests.support.emulator_process import BUCKET, IMAGE, REGION, TRUST, Emulated, emulator

ARN = f"arn:aws:sagemaker:{REGION}:123456789012:processing-job/"
GROUP = "/aws/sagemaker/ProcessingJobs"
TIMEOUT = 60.0
PRINTING_HANDLER = """
import json, os, pathlib, sys
root = pathlib.Path(os.environ["LMI_OPT_ML"])
out = pathlib.Path(sys.argv[1])
resources = json.loads((root / "config/resourceconfig.json").read_text())
whole = json.loads((root / "config/processingjobconfig.json").read_text())
told = {
    **resources,
    "arn": whole["ProcessingJobArn"],
    "all": sorted(os.listdir(sys.argv[2])),
    "mine": sorted(os.listdir(sys.argv[3])),
    "KEY": os.environ["KEY"],
    "HOME": os.environ["HOME"],
    "endpoint": os.environ["AWS_ENDPOINT_URL"],
}
(out / (resources["current_host"] + ".json")).write_text(json.dumps(told))
(root / "output").joinpath("message").write_text("done by " + resources["current_host"] + "; ")
print("this is", resources["current_host"])
"""
REQUESTING_SCRIPT = """
import boto3, sys
s3 = boto3.client("s3")
print(boto3.client("sts").get_caller_identity()["Arn"])
for key in sys.argv[1:]:
    try:
        print(key, s3.get_object(Bucket="weights-and-artifacts", Key=key)["Body"].read())
    except s3.exceptions.ClientError as exc:
        print(key, exc.response["Error"]["Code"])
"""


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    folder = tmp_path_factory.mktemp("strict")
    with emulator(folder, *FULL_SPEED, "--enforce-iam", containers=True) as running:
        yield running


def role(aws: Emulated, name: str = "worker", *, put: str = "out/*") -> str:
    """A role that may read `in/`, list, and write below a prefix."""
    arn = aws.role(name, trust=TRUST, resources=[f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/in/*"])
    rights = {"Effect": "Allow", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{BUCKET}/{put}"}
    policy = {"Version": "2012-10-17", "Statement": [rights]}
    aws.client("iam").put_role_policy(RoleName=name, PolicyName="put", PolicyDocument=json.dumps(policy))
    return arn


def job(aws: Emulated, name: str, *command: str, count: int = 1, **more: Any) -> dict[str, Any]:
    cluster = {"InstanceType": "ml.m5.large", "InstanceCount": count, "VolumeSizeInGB": 30}
    return {
        "ProcessingJobName": name,
        "RoleArn": role(aws),
        "AppSpecification": {"ImageUri": IMAGE, "ContainerEntrypoint": list(command)},
        "ProcessingResources": {"ClusterConfig": cluster},
        **more,
    }


def source(name: str, uri: str, *, sharded: bool = False) -> dict[str, Any]:
    kind = "ShardedByS3Key" if sharded else "FullyReplicated"
    place = {"S3Uri": uri, "LocalPath": f"/opt/ml/processing/input/{name}", "S3DataType": "S3Prefix"}
    return {"InputName": name, "S3Input": {**place, "S3InputMode": "File", "S3DataDistributionType": kind}}


def settled(aws: Emulated, name: str) -> dict[str, Any]:
    deadline = time.monotonic() + TIMEOUT
    api = aws.client("sagemaker")
    while (found := api.describe_processing_job(ProcessingJobName=name))["ProcessingJobStatus"] in (
        "InProgress",
        "Stopping",
    ):
        assert time.monotonic() < deadline, f"{found}\n{aws.log.read_text()}"
        time.sleep(0.02)
    return dict(found)


def ran(aws: Emulated, name: str, *command: str, **more: Any) -> dict[str, Any]:
    aws.client("sagemaker").create_processing_job(**job(aws, name, *command, **more))
    return settled(aws, name)


def printed(aws: Emulated, name: str) -> list[str]:
    events = aws.client("logs").filter_log_events(logGroupName=GROUP, logStreamNamePrefix=f"{name}/")[
        "events"
    ]
    return [event["message"] for event in events]


def stopped(aws: Emulated, name: str) -> dict[str, Any]:
    aws.client("sagemaker").stop_processing_job(ProcessingJobName=name)
    return settled(aws, name)


def running(aws: Emulated, name: str) -> None:
    """Waits until the container has printed something."""
    deadline = time.monotonic() + TIMEOUT
    logs = aws.client("logs")
    while time.monotonic() < deadline:
        try:
            if printed(aws, name):
                return
        except logs.exceptions.ResourceNotFoundException:
            pass
        time.sleep(0.05)
    raise AssertionError(aws.log.read_text())


def test_hosts_read_their_inputs_and_upload_their_outputs(strict: Emulated) -> None:
    strict.upload("in/code", {"tells.py": PRINTING_HANDLER})
    strict.upload("in/data", {"a": "1", "b": "2", "deep/c": "3"})
    inputs = [
        source("code", f"s3://{BUCKET}/in/code/tells.py"),
        source("all", f"s3://{BUCKET}/in/data"),
        source("mine", f"s3://{BUCKET}/in/data/", sharded=True),
    ]
    out = {
        "S3Uri": f"s3://{BUCKET}/out/tells",
        "LocalPath": "/opt/ml/processing/out",
        "S3UploadMode": "EndOfJob",
    }
    found = ran(
        strict,
        "tells",
        "python3",
        "/opt/ml/processing/input/code/tells.py",
        *("/opt/ml/processing/out", "/opt/ml/processing/input/all", "/opt/ml/processing/input/mine"),
        count=2,
        Environment={"KEY": "value"},
        ProcessingInputs=inputs,
        ProcessingOutputConfig={"Outputs": [{"OutputName": "out", "S3Output": out}]},
    )
    assert (found["ProcessingJobStatus"], found.get("FailureReason")) == ("Completed", None)
    assert found["ExitMessage"] == "done by algo-1; done by algo-2; "
    assert found["CreationTime"] < found["ProcessingStartTime"] <= found["ProcessingEndTime"]
    s3 = strict.client("s3")
    description = {
        host: json.load(s3.get_object(Bucket=BUCKET, Key=f"out/tells/{host}.json")["Body"])
        for host in ("algo-1", "algo-2")
    }
    for host, output in description.items():
        assert (output["current_host"], output["hosts"]) == (host, ["algo-1", "algo-2"])
        assert (output["all"], output["KEY"], output["arn"]) == (["a", "b", "deep"], "value", ARN + "tells")
        assert output["endpoint"] == strict.url
    assert [description[host]["mine"] for host in sorted(description)] == [["a", "deep"], ["b"]]
    streams = strict.client("logs").describe_log_streams(logGroupName=GROUP, logStreamNamePrefix="tells/")
    names = [item["logStreamName"].rpartition("-")[0] for item in streams["logStreams"]]
    assert names == ["tells/algo-1", "tells/algo-2"]
    assert sorted(printed(strict, "tells")) == ["this is algo-1", "this is algo-2"]


def test_job_container_has_only_the_permissions_of_its_role(strict: Emulated) -> None:
    strict.upload("in/code", {"asks.py": REQUESTING_SCRIPT})
    strict.upload("secret", {"x": "1"})
    command = ("python3", "/opt/ml/processing/input/code/asks.py", "in/code/asks.py", "secret/x")
    inputs = [source("code", f"s3://{BUCKET}/in/code/")]
    assert ran(strict, "asks", *command, ProcessingInputs=inputs)["ProcessingJobStatus"] == "Completed"
    lines = printed(strict, "asks")
    assert "arn:aws:sts::123456789012:assumed-role/worker/SageMaker" in lines
    assert "secret/x AccessDenied" in lines
    assert any(line.startswith("in/code/asks.py b'") for line in lines)


def test_isolated_job_has_no_credentials_and_no_network(strict: Emulated) -> None:
    observe = "import os; print(sorted(k for k in os.environ if 'CREDENTIALS' in k), os.environ['AWS_ENDPOINT_URL'])"
    found = ran(strict, "isolated", "python3", "-c", observe, NetworkConfig={"EnableNetworkIsolation": True})
    assert found["ProcessingJobStatus"] == "Completed"
    assert printed(strict, "isolated") == ["[] http://127.0.0.1:9"]


FAILS = {
    "exit": (("python3", "-c", "import sys; sys.exit(3)"), "AlgorithmError: , exit code: 3"),
    "killed": (("bash", "-c", "kill -9 $$"), "AlgorithmError: , exit code: 137"),
    "no-such": (("/usr/bin/no-such-program",), "AlgorithmError: , exit code: 127"),
    "says": (
        ("bash", "-c", "echo -n out of disk > /opt/ml/output/message; exit 1"),
        "AlgorithmError: out of disk, exit code: 1",
    ),
}


@pytest.mark.parametrize("case", FAILS)
def test_failed_container_gives_the_failure_reason(strict: Emulated, case: str) -> None:
    command, reason = FAILS[case]
    found = ran(strict, f"fails-{case}", *command)
    assert (found["ProcessingJobStatus"], found["FailureReason"]) == ("Failed", reason)


def test_one_failed_host_ends_the_other_hosts(strict: Emulated) -> None:
    script = 'grep -q \'"current_host": "algo-2"\' /opt/ml/config/resourceconfig.json && exit 4; sleep 600'
    found = ran(strict, "half", "bash", "-c", script, count=2)
    assert (found["ProcessingJobStatus"], found["FailureReason"]) == (
        "Failed",
        "AlgorithmError: , exit code: 4",
    )


def test_missing_or_unreadable_input_fails_the_job(strict: Emulated) -> None:
    found = ran(strict, "absent", "true", ProcessingInputs=[source("none", f"s3://{BUCKET}/in/none/")])
    assert found["FailureReason"].startswith(
        f'ClientError: No S3 objects found under S3 URL "s3://{BUCKET}/in/none/"'
    )
    strict.upload("secret", {"x": "1"})
    found = ran(strict, "forbidden", "true", ProcessingInputs=[source("none", f"s3://{BUCKET}/secret/")])
    assert found["FailureReason"].startswith("ClientError: Cannot download")


def test_stop_lets_the_container_exit_gracefully(strict: Emulated) -> None:
    script = 'trap "echo goodbye; exit 0" TERM; echo hello; while true; do sleep 0.05; done'
    strict.client("sagemaker").create_processing_job(**job(strict, "stopped", "bash", "-c", script))
    running(strict, "stopped")
    api = strict.client("sagemaker")
    with pytest.raises(api.exceptions.ResourceInUse):
        api.delete_processing_job(ProcessingJobName="stopped")
    found = stopped(strict, "stopped")
    assert (found["ProcessingJobStatus"], found.get("FailureReason")) == ("Stopped", None)
    assert printed(strict, "stopped") == ["hello", "goodbye"]
    with pytest.raises(api.exceptions.ClientError, match="is in status Stopped"):
        api.stop_processing_job(ProcessingJobName="stopped")
    api.delete_processing_job(ProcessingJobName="stopped")
    with pytest.raises(api.exceptions.ClientError, match="Could not find requested job with name: stopped"):
        api.describe_processing_job(ProcessingJobName="stopped")


def test_job_over_its_time_limit_is_stopped(strict: Emulated) -> None:
    limits = {"MaxRuntimeInSeconds": 3600}
    strict.client("sagemaker").create_processing_job(
        **job(strict, "long", "bash", "-c", "echo begun; sleep 600", StoppingCondition=limits)
    )
    running(strict, "long")
    strict.advance(3601)
    assert settled(strict, "long")["ProcessingJobStatus"] == "Stopped"


def test_job_has_a_python_environment_of_its_own(strict: Emulated) -> None:
    observe = "import sys, lmi_deploy; print(sys.prefix != sys.base_prefix, sys.prefix)"
    assert ran(strict, "prefix", "python3", "-c", observe)["ProcessingJobStatus"] == "Completed"
    (line,) = printed(strict, "prefix")
    assert line.startswith("True ")
    assert line.endswith("/algo-1/env")


def refused(aws: Emulated, **changes: Any) -> tuple[str, str]:
    api = aws.client("sagemaker")
    with pytest.raises(api.exceptions.ClientError) as refusal:
        api.create_processing_job(**{**job(aws, "refused", "true"), **changes})
    error = refusal.value.response["Error"]
    return error["Code"], error["Message"]


def test_job_name_can_be_used_only_once(aws: Emulated) -> None:
    aws.client("sagemaker").create_processing_job(**job(aws, "taken", "true"))
    assert refused(aws, ProcessingJobName="Taken") == (
        "ResourceInUse",
        "Job name must be unique within an AWS account and region, and a job with this name already exists "
        f"({ARN}taken)",
    )
    assert settled(aws, "taken")["ProcessingJobStatus"] == "Completed"


def test_invalid_role_image_or_local_path_is_refused(aws: Emulated) -> None:
    unknown = "arn:aws:iam::123456789012:role/nobody"
    assert refused(aws, RoleArn=unknown)[1].startswith(f"Could not assume role {unknown}.")
    app = {"ImageUri": IMAGE.replace("763104351884", "999999999999"), "ContainerEntrypoint": ["true"]}
    assert "does not grant ecr:GetDownloadUrlForLayer" in refused(aws, AppSpecification=app)[1]
    other_location = source("x", f"s3://{BUCKET}/in/")
    other_location["S3Input"]["LocalPath"] = "/tmp/x"
    assert "must begin with /opt/ml/processing/" in refused(aws, ProcessingInputs=[other_location])[1]


def test_processing_jobs_have_their_own_quotas(aws: Emulated) -> None:
    aws.post(f"/_quotas/{REGION}", {"ml.m5.large": 0, "ml.m5.xlarge for processing job usage": 1})
    cluster = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
    code, message = refused(aws, ProcessingResources={"ClusterConfig": cluster})
    assert code == "ResourceLimitExceeded"
    assert message.startswith(
        "The account-level service limit 'ml.m5.xlarge for processing job usage' is 1 Instances"
    )
    assert "a request delta of 2 Instances" in message
    assert ran(aws, "small", "true")["ProcessingJobStatus"] == "Completed"
    pages = (
        aws.client("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    )
    values = {item["QuotaName"]: item["Value"] for part in pages for item in part["Quotas"]}
    assert values["ml.m5.xlarge for processing job usage"] == 1
    assert values["ml.m5.large for endpoint usage"] == 0


def test_jobs_are_listed_and_found_by_tag(aws: Emulated) -> None:
    api = aws.client("sagemaker")
    tags = [{"Key": "lmi:deployment", "Value": "one"}]
    api.create_processing_job(**job(aws, "listed", "true", Tags=tags))
    settled(aws, "listed")
    (summary,) = api.list_processing_jobs(NameContains="listed", StatusEquals="Completed")[
        "ProcessingJobSummaries"
    ]
    assert summary["ProcessingJobArn"] == ARN + "listed"
    assert api.list_tags(ResourceArn=ARN + "listed")["Tags"] == tags
    found = aws.client("resourcegroupstaggingapi").get_resources(
        ResourceTypeFilters=["sagemaker:processing-job"]
    )
    assert [item["ResourceARN"] for item in found["ResourceTagMappingList"]] == [ARN + "listed"]


def test_fault_rule_makes_a_job_fail(aws: Emulated) -> None:
    reason = "CapacityError: Unable to provision requested ML compute capacity."
    aws.fault(
        {
            "method": "PROCESSING",
            "path": "^/provision/unlucky/",
            "do": {"answer": {"status": 400, "body": reason}},
        }
    )
    found = ran(aws, "unlucky", "true")
    assert (found["ProcessingJobStatus"], found["FailureReason"]) == ("Failed", reason)


def test_image_without_a_known_entry_point_fails_the_job(aws: Emulated) -> None:
    found = ran(aws, "default", "true", AppSpecification={"ImageUri": IMAGE})
    assert found["ProcessingJobStatus"] == "Failed"
    assert "ContainerEntrypoint" in found["FailureReason"]


def test_job_of_an_ended_emulator_is_failed_after_restart(tmp_path: Path) -> None:
    kept = (*FULL_SPEED, "--dir", str(tmp_path / "state"))
    with emulator(tmp_path, *kept, containers=True) as aws:
        aws.client("sagemaker").create_processing_job(**job(aws, "lost", "bash", "-c", "echo $$; sleep 600"))
        running(aws, "lost")
        (number,) = printed(aws, "lost")
        aws.process.kill()
        aws.process.wait()
    with emulator(tmp_path, *kept, containers=True) as aws:
        found = settled(aws, "lost")
        assert (found["ProcessingJobStatus"], found["FailureReason"]) == (
            "Failed",
            "InternalServerError: We encountered an internal error. Please try again.",
        )
        assert not psutil.pid_exists(int(number)) or psutil.Process(int(number)).status() == "zombie"


def test_jobs_are_listed_oldest_first_by_default(aws: Emulated) -> None:
    """API reference of ListProcessingJobs: "SortOrder: The sort order for results. The default is Ascending."."""
    api = aws.client("sagemaker")
    cluster = {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 1}
    for name in ("sorted-b", "sorted-a"):
        api.create_processing_job(
            ProcessingJobName=name,
            RoleArn=aws.role(),
            AppSpecification={"ImageUri": IMAGE, "ContainerEntrypoint": ["true"]},
            ProcessingResources={"ClusterConfig": cluster},
        )
    description = api.list_processing_jobs(NameContains="sorted-")["ProcessingJobSummaries"]
    assert [job["ProcessingJobName"] for job in description] == ["sorted-b", "sorted-a"]
