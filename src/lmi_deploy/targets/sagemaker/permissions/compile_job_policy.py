"""The permissions for `lmi compile`: of the user, and of the role of the job.

The job reads the model, and writes its result below its own prefix; `lmi` checks the result and copies it to the
weights. What AWS requires of such a role: see `transfer_job_policy.py`; an optimization job needs the same of S3
(SageMaker's developer guide, "Inference optimization for SageMaker models", permissions).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.domain.sagemaker.transfer_job import COMPILE_JOB, JOBS
from lmi_deploy.domain.target_spec import CompilePlace
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

_FILES: Final = f"{JOBS}{COMPILE_JOB}"


def compile_starter(place: CompilePlace, arns: Arns) -> Iterator[PolicyStatement]:
    """Of the user who runs `lmi compile`."""
    kind = "Optimization" if place.what.compiler == "optimization" else "Processing"
    yield pass_role(place.role, sid="HandOverCompileRole", what="the role of the compile job")
    yield PolicyStatement(
        sid="RunCompileJob",
        actions=(
            "sagemaker:AddTags",
            *(f"sagemaker:{verb}{kind}Job" for verb in ("Create", "Describe", "Stop")),
        ),
        resources=(arns.of("sagemaker", f"{kind.lower()}-job/{COMPILE_JOB}*"),),
        why="run the compile job, wait for it, and stop it (`lmi compile`)",
    )
    yield PolicyStatement(
        sid="HandCompileJobItsOrder",
        actions=("s3:DeleteObject", "s3:GetObject", "s3:PutObject"),
        resources=arns.objects(_FILES),
        why="the job's order, and its result, which is checked and copied to the weights",
    )
    if kind == "Processing":
        yield read_job_logs(arns, sid="ReadCompileLogs")


def compile_job(spec: Spec, place: CompilePlace, arns: Arns) -> Iterator[PolicyStatement]:
    """Of the role of the job."""
    yield PolicyStatement(
        sid="LookIntoBucket",
        actions=("s3:ListBucket",),
        resources=(arns.bucket,),
        why="list the model's files",
    )
    yield PolicyStatement(
        sid="ReadModel",
        actions=("s3:GetObject",),
        resources=arns.objects(*arns.own_weights, _FILES),
        why="the weights of this model, and the job's order",
    )
    yield PolicyStatement(
        sid="WriteResult", actions=WRITE_OBJECTS, resources=arns.objects(_FILES), why="the job's result"
    )
    yield from pull_image(arns, place.image)
    yield from write_telemetry(arns.job_logs, why="the job's logs")
    if spec.cloud.kms_key:
        yield use_key(arns)
        yield lend_key(arns, what="the job's volumes")
    if spec.cloud.vpc is not None:
        yield join_network()
