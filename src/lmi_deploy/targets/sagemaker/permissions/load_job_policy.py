"""The permissions of a load job's role: invoke one endpoint, and read and write the job's own objects; and those of the
user who starts it (`lmi bench --via job`).

What AWS requires of such a role: see `transfer_job_policy.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.targets.sagemaker.permissions.arns import Arns
from lmi_deploy.targets.sagemaker.permissions.policy_statements import (
    join_network,
    lend_key,
    pass_role,
    pull_image,
    read_job_logs,
    use_key,
    write_telemetry,
)


def load_sender(*, endpoint: str, bucket: str, objects: tuple[str, ...]) -> Iterator[PolicyStatement]:
    """The rights without which no machine can send load; their arguments are ARNs."""
    yield PolicyStatement(
        sid="SendLoad",
        actions=("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream"),
        resources=(endpoint,),
        why="send requests to the endpoint",
    )
    yield PolicyStatement(
        sid="LookIntoBucket",
        actions=("s3:ListBucket",),
        resources=(bucket,),
        why="see whether lmi has written the next load",
    )
    yield PolicyStatement(
        sid="TalkToLmi",
        actions=("s3:GetObject", "s3:PutObject"),
        resources=objects,
        why="read the requests and the loads, write what was measured",
    )


def load_job(spec: Spec, image: str, arns: Arns) -> Iterator[PolicyStatement]:
    yield from load_sender(endpoint=arns.endpoint, bucket=arns.bucket, objects=arns.orders)
    yield from pull_image(arns, image)
    yield from write_telemetry(arns.job_logs, why="the job's logs")
    if spec.cloud.kms_key:
        yield use_key(arns)
        yield lend_key(arns, what="the job's volumes")
    if spec.cloud.vpc is not None:
        yield join_network()


def load_job_starter(spec: Spec, role: str, arns: Arns) -> Iterator[PolicyStatement]:
    """With a transfer job there are the same statements already: its names have the same form."""
    yield pass_role(role, sid="HandOverLoadRole", what="the role of the load job")
    shares = spec.cloud.job is not None
    yield PolicyStatement(
        sid="RunLoadJob",
        actions=(
            *(() if shares else ("sagemaker:AddTags", "sagemaker:CreateProcessingJob")),
            "sagemaker:DeleteProcessingJob",
            *(() if shares else ("sagemaker:DescribeProcessingJob", "sagemaker:StopProcessingJob")),
        ),
        resources=arns.jobs,
        why="run the load job (bench.via: job), and delete it",
    )
    if shares:
        return
    yield PolicyStatement(
        sid="TalkToLoadJob",
        actions=("s3:DeleteObject", "s3:GetObject", "s3:PutObject"),
        resources=arns.orders,
        why="the requests and the loads of the job, and what it measured",
    )
    yield read_job_logs(arns, sid="ReadLoadLogs")
