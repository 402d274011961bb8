"""The permissions of a transfer job's role: write the weights of its own models, and nothing else in S3; and those of
the user who starts it.

What AWS requires of such a role: SageMaker's developer guide, "How to use SageMaker AI execution roles",
CreateProcessingJob API (including kms:CreateGrant with VolumeKmsKeyId).
"""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.domain.target_spec import JobPlace
from lmi_deploy.targets.sagemaker.permissions.arns import Arns
from lmi_deploy.targets.sagemaker.permissions.policy_statements import (
    WRITE_OBJECTS,
    join_network,
    lend_key,
    pass_role,
    pull_image,
    read_job_logs,
    use_key,
    write_telemetry,
)


def transfer_job(spec: Spec, job: JobPlace, arns: Arns) -> Iterator[PolicyStatement]:
    place = spec.cloud
    yield from _storage(arns)
    yield from pull_image(arns, job.image)
    yield from write_telemetry(arns.job_logs, why="the job's logs")
    if place.kms_key:
        yield use_key(arns, sid="WriteEncrypted")
        yield lend_key(arns, what="the job's volumes")
    if place.vpc is not None:
        yield join_network()
    if place.token_secret:
        yield PolicyStatement(
            sid="ReadToken",
            actions=("secretsmanager:GetSecretValue",),
            resources=(arns.secret,),
            why="the Hub token (weights.token_secret)",
        )


def _storage(arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="LookIntoBucket",
        actions=("s3:ListBucket", "s3:ListBucketMultipartUploads"),
        resources=(arns.bucket,),
        why="list existing files; an interrupted job continues",
    )
    yield PolicyStatement(
        sid="WriteWeights",
        actions=WRITE_OBJECTS,
        resources=arns.objects(*arns.moved_weights),
        why="the weights of this model, its adapters and its draft model at any commit, and their manifests",
    )
    yield PolicyStatement(
        sid="ReadOrder",
        actions=("s3:GetObject", "s3:PutObject"),
        resources=arns.orders,
        why="the job's request and its progress",
    )


def transfer_job_starter(spec: Spec, job: JobPlace, arns: Arns) -> Iterator[PolicyStatement]:
    yield pass_role(job.role, sid="HandOverJobRole", what="the role of the transfer job")
    yield PolicyStatement(
        sid="RunTransferJob",
        actions=(
            "sagemaker:AddTags",
            "sagemaker:CreateProcessingJob",
            "sagemaker:DescribeProcessingJob",
            "sagemaker:ListTags",
            "sagemaker:StopProcessingJob",
        ),
        resources=arns.jobs,
        why="run the transfer job (weights.via: job)",
    )
    yield PolicyStatement(
        sid="HandJobItsOrder",
        actions=("s3:DeleteObject", "s3:GetObject", "s3:PutObject"),
        resources=arns.orders,
        why="the job's request and its progress",
    )
    yield read_job_logs(arns, sid="ReadJobLogs")
    if spec.cloud.token_secret:
        yield PolicyStatement(
            sid="FindToken",
            actions=("secretsmanager:DescribeSecret",),
            resources=(arns.secret,),
            why="see whether the secret exists; lmi does not read its value",
        )
