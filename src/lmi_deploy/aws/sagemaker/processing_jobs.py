"""The port Jobs: SageMaker's processing jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.aws.logs import CloudWatchLogs
from lmi_deploy.aws.sagemaker.job_lists import JobList, job_names, moment_text
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.resource_fields import tag_list, vpc_request
from lmi_deploy.domain.sagemaker.transfer_job import JobSettings, ObservedJob, purpose_of
from lmi_deploy.errors import CloudError, Conflict, NotFound

_LOGS: Final = "/aws/sagemaker/ProcessingJobs"
_LIST: Final = JobList("list_processing_jobs", "ProcessingJobSummaries", "ProcessingJobName")
_IN_PROGRESS: Final = ("InProgress", "Stopping")


class ProcessingJobs:
    def __init__(self, access: AwsConnection, logs: CloudWatchLogs, *, account: str) -> None:
        self._api = Service(access, "sagemaker")
        self._logs = logs
        self._account = account

    def job(self, name: str) -> ObservedJob | None:
        try:
            response = self._about("describe_processing_job", name, needs="ProcessingJobStatus")
        except NotFound:
            return None
        cluster = (response.get("ProcessingResources") or {}).get("ClusterConfig") or {}
        return ObservedJob(
            name=name,
            arn=str(response["ProcessingJobArn"]),
            status=str(response["ProcessingJobStatus"]),
            reason=str(response.get("FailureReason") or ""),
            message=str(response.get("ExitMessage") or ""),
            instance=str(cluster.get("InstanceType") or ""),
            count=int(cluster.get("InstanceCount") or 0),
            started=moment_text(response.get("ProcessingStartTime")),
            ended=moment_text(response.get("ProcessingEndTime")),
            purpose=purpose_of([str(one.get("InputName")) for one in response.get("ProcessingInputs") or ()]),
        )

    def running(self) -> frozenset[str]:
        return job_names(self._api, _LIST, [{"StatusEquals": status} for status in _IN_PROGRESS])

    def since(self, moment: datetime) -> frozenset[str]:
        return job_names(self._api, _LIST, [{"CreationTimeAfter": moment}])

    def start(self, name: str, settings: JobSettings, tags: Pairs) -> None:
        self._about("create_processing_job", name, **_request(settings), Tags=tag_list(tags))

    def stop(self, name: str) -> None:
        try:
            self._about("stop_processing_job", name)
        except NotFound:
            return
        except (CloudError, Conflict):
            observed = self.job(name)
            if observed is not None and observed.status == "InProgress":
                raise

    def delete(self, name: str) -> None:
        with suppress(NotFound):
            self._about("delete_processing_job", name)

    def lines(self, name: str) -> Iterator[str]:
        return self._logs.stream(_LOGS, f"{name}/")

    def _about(self, call: str, name: str, **given: Any) -> dict[str, Any]:
        arn = f"arn:{self._api.partition}:sagemaker:{self._api.region}:{self._account}:processing-job/{name}"
        return self._api(call, f"processing job {name}", resource=arn, ProcessingJobName=name, **given)


def _request(settings: JobSettings) -> dict[str, Any]:
    """CreateProcessingJob's members but name and tags."""
    cluster: dict[str, Any] = {
        "InstanceCount": settings.count,
        "InstanceType": settings.instance,
        "VolumeSizeInGB": settings.volume_gb,
    }
    if settings.kms_key and not settings.local_disks:
        cluster["VolumeKmsKeyId"] = settings.kms_key
    requested: dict[str, Any] = {
        "RoleArn": settings.role,
        "AppSpecification": {"ImageUri": settings.image, "ContainerEntrypoint": list(settings.command)},
        "ProcessingResources": {"ClusterConfig": cluster},
        "StoppingCondition": {"MaxRuntimeInSeconds": settings.timeout},
        "Environment": dict(settings.environment),
        "ProcessingInputs": [_input(*given) for given in settings.inputs],
    }
    if settings.outputs:
        requested["ProcessingOutputConfig"] = _outputs(settings)
    if settings.vpc is not None:
        requested["NetworkConfig"] = {"VpcConfig": vpc_request(settings.vpc)}
    return requested


def _outputs(settings: JobSettings) -> dict[str, Any]:
    outputs = [
        {
            "OutputName": folder.rstrip("/").rpartition("/")[2],
            "S3Output": {"S3Uri": uri, "LocalPath": folder, "S3UploadMode": "EndOfJob"},
        }
        for folder, uri in settings.outputs
    ]
    key = {"KmsKeyId": settings.kms_key} if settings.kms_key else {}
    return {"Outputs": outputs, **key}


def _input(name: str, uri: str, folder: str) -> dict[str, Any]:
    source = {
        "S3Uri": uri,
        "LocalPath": folder,
        "S3DataType": "S3Prefix",
        "S3InputMode": "File",
        "S3DataDistributionType": "FullyReplicated",
    }
    return {"InputName": name, "S3Input": source}
