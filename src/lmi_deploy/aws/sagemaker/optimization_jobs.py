"""The port ModelOptimizations: SageMaker's optimization jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.aws.sagemaker.job_lists import JobList, job_names, moment_text
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.optimization_job import OptimizationSettings
from lmi_deploy.domain.sagemaker.resource_fields import tag_list, vpc_request
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.errors import CloudError, Conflict, NotFound

_STATUS: Final = {
    "STARTING": "InProgress",
    "INPROGRESS": "InProgress",
    "STOPPING": "Stopping",
    "COMPLETED": "Completed",
    "FAILED": "Failed",
    "STOPPED": "Stopped",
}

_LIST: Final = JobList("list_optimization_jobs", "OptimizationJobSummaries", "OptimizationJobName")
_IN_PROGRESS: Final = ("STARTING", "INPROGRESS", "STOPPING")


class OptimizationJobs:
    def __init__(self, access: AwsConnection, *, account: str) -> None:
        self._api = Service(access, "sagemaker")
        self._account = account

    def job(self, name: str) -> ObservedJob | None:
        try:
            response = self._about("describe_optimization_job", name, needs="OptimizationJobStatus")
        except NotFound:
            return None
        status = str(response["OptimizationJobStatus"])
        return ObservedJob(
            name=name,
            arn=str(response["OptimizationJobArn"]),
            status=_STATUS.get(status, status),
            reason=str(response.get("FailureReason") or ""),
            instance=str(response.get("DeploymentInstanceType") or ""),
            count=1,
            kind="optimization-job",
            started=moment_text(response.get("OptimizationStartTime")),
            ended=moment_text(response.get("OptimizationEndTime")),
        )

    def running(self) -> frozenset[str]:
        return job_names(self._api, _LIST, [{"StatusEquals": status} for status in _IN_PROGRESS])

    def since(self, moment: datetime) -> frozenset[str]:
        return job_names(self._api, _LIST, [{"CreationTimeAfter": moment}])

    def start(self, name: str, settings: OptimizationSettings, tags: Pairs) -> None:
        self._about("create_optimization_job", name, **_request(settings), Tags=tag_list(tags))

    def stop(self, name: str) -> None:
        try:
            self._about("stop_optimization_job", name)
        except NotFound:
            return
        except (CloudError, Conflict):
            observed = self.job(name)
            if observed is not None and observed.status == "InProgress":
                raise

    def lines(self, name: str) -> Iterator[str]:
        return iter(())

    def _about(self, call: str, name: str, **given: Any) -> dict[str, Any]:
        arn = (
            f"arn:{self._api.partition}:sagemaker:{self._api.region}:{self._account}:optimization-job/{name}"
        )
        return self._api(call, f"optimization job {name}", resource=arn, OptimizationJobName=name, **given)


def _request(settings: OptimizationSettings) -> dict[str, Any]:
    """CreateOptimizationJob's members but name and tags."""
    technique = {"Image": settings.image, "OverrideEnvironment": dict(settings.environment)}
    output = {"S3OutputLocation": settings.output}
    if settings.kms_key:
        output["KmsKeyId"] = settings.kms_key
    requested: dict[str, Any] = {
        "RoleArn": settings.role,
        "ModelSource": {"S3": {"S3Uri": settings.source}},
        "DeploymentInstanceType": settings.instance,
        "OptimizationConfigs": [{settings.technique: technique}],
        "OutputConfig": output,
        "StoppingCondition": {"MaxRuntimeInSeconds": settings.timeout},
    }
    if settings.vpc is not None:
        requested["VpcConfig"] = vpc_request(settings.vpc)
    return requested
