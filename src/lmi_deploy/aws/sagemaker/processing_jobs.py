"""The port Jobs: SageMaker's processing jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lmi_deploy.aws.client import Access, Service
from lmi_deploy.aws.logs import CloudWatchLogs
from lmi_deploy.aws.sagemaker.resource_fields import tag_list, vpc_request
from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.errors import CloudError, Conflict, NotFound
from lmi_deploy.ports.processing_jobs import JobSettings, SeenJob

_LOGS: Final = "/aws/sagemaker/ProcessingJobs"
_UNDER_WAY: Final = frozenset({"InProgress", "Stopping"})


class ProcessingJobs:
    def __init__(self, access: Access, logs: CloudWatchLogs, *, account: str) -> None:
        self._api = Service(access, "sagemaker")
        self._logs = logs
        self._account = account

    def job(self, name: str) -> SeenJob | None:
        try:
            told = self._about("describe_processing_job", name, needs="ProcessingJobStatus")
        except NotFound:
            return None
        cluster = (told.get("ProcessingResources") or {}).get("ClusterConfig") or {}
        return SeenJob(
            name=name,
            arn=str(told["ProcessingJobArn"]),
            status=str(told["ProcessingJobStatus"]),
            reason=str(told.get("FailureReason") or ""),
            message=str(told.get("ExitMessage") or ""),
            instance=str(cluster.get("InstanceType") or ""),
            count=int(cluster.get("InstanceCount") or 0),
        )

    def start(self, name: str, settings: JobSettings, tags: Pairs) -> None:
        self._about("create_processing_job", name, **_request(settings), Tags=tag_list(tags))

    def stop(self, name: str) -> None:
        try:
            self._about("stop_processing_job", name)
        except NotFound:
            return
        except (CloudError, Conflict):
            seen = self.job(name)
            if seen is not None and seen.status in _UNDER_WAY - {"Stopping"}:
                raise

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
    if settings.kms_key:
        cluster["VolumeKmsKeyId"] = settings.kms_key
    asked: dict[str, Any] = {
        "RoleArn": settings.role,
        "AppSpecification": {"ImageUri": settings.image, "ContainerEntrypoint": list(settings.command)},
        "ProcessingResources": {"ClusterConfig": cluster},
        "StoppingCondition": {"MaxRuntimeInSeconds": settings.timeout},
        "Environment": dict(settings.environment),
        "ProcessingInputs": [_input(*given) for given in settings.inputs],
    }
    if settings.vpc is not None:
        asked["NetworkConfig"] = {"VpcConfig": vpc_request(settings.vpc)}
    return asked


def _input(name: str, uri: str, folder: str) -> dict[str, Any]:
    source = {
        "S3Uri": uri,
        "LocalPath": folder,
        "S3DataType": "S3Prefix",
        "S3InputMode": "File",
        "S3DataDistributionType": "FullyReplicated",
    }
    return {"InputName": name, "S3Input": source}
