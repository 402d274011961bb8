"""The machines of a load job: by default small ones, because the client uses one core."""

from __future__ import annotations

from typing import Final

from lmi_deploy.catalog.instances import has_local_disks
from lmi_deploy.domain.gathered_facts import AccountLocation
from lmi_deploy.domain.sagemaker.transfer_job import INPUT, LOAD_INPUT, JobSettings
from lmi_deploy.domain.serving_record import SageMakerServing
from lmi_deploy.errors import UsageRefused
from lmi_deploy.targets.sagemaker.roles import LOAD_ROLE, role_arn
from lmi_deploy.targets.sagemaker.transfer_job.resolve import job_image

INSTANCE: Final = "ml.c5.xlarge"
"""4 processors: one for the client, the others for the network and for writing what it measured. In every region that
has SageMaker."""
MOST_SECONDS: Final = 5 * 86_400
"""SageMaker's limit for a processing job."""
RESOURCES: Final = "/opt/ml/config/resourceconfig.json"
_VOLUME_GB: Final = 30


def load_job_settings(
    place: SageMakerServing,
    account: AccountLocation,
    *,
    instances: int,
    instance_type: str | None,
    role: str | None,
    time_limit: int,
) -> JobSettings:
    """All but what depends on the job's name; in the network of the deployment, and with its key."""
    instance = instance_type or INSTANCE
    return JobSettings(
        role=role_arn(role, account, default=LOAD_ROLE, key="the role of the load job"),
        image=job_image(place.region),
        instance=instance,
        count=instances,
        volume_gb=_VOLUME_GB,
        command=(),
        environment=(),
        inputs=(),
        timeout=time_limit,
        kms_key=place.kms_key,
        vpc=place.vpc,
        local_disks=has_local_disks(instance),
    )


def time_limit_of(asked: int | None, needed: float) -> int:
    """UsageRefused if the loads may take longer than the job may."""
    limit = asked or MOST_SECONDS
    if needed > limit:
        what = f"--job-time-limit {asked}" if asked else f"{MOST_SECONDS} s, SageMaker's limit for a job,"
        raise UsageRefused(
            f"{what} is too short: the loads may take {needed:.0f} s",
            hint="shorten --duration or --timeout, measure fewer loads"
            + (", or allow more time" if asked else ""),
        )
    return asked or int(needed) + 1


def command_of(bucket: str, owner: str, prefix: str) -> tuple[str, ...]:
    """What each machine runs: `lmi bench job`, unpacked by start.py."""
    program, files = f"{INPUT}/lmi", f"{INPUT}/{LOAD_INPUT}"
    place = ("--bucket", bucket, "--owner", owner, "--prefix", prefix)
    return ("python3", f"{program}/start.py", program, "bench", "job", files, RESOURCES, *place)
