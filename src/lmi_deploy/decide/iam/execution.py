"""What the role of an endpoint may do: read its model, fetch its image, write its logs."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.core.rights import Grant
from lmi_deploy.core.spec import Spec
from lmi_deploy.core.transfer_job import JOBS
from lmi_deploy.decide.iam.actions import WRITE_LOGS, WRITE_OBJECTS
from lmi_deploy.decide.iam.arns import Arns


def execution(spec: Spec, arns: Arns) -> Iterator[Grant]:
    place = spec.cloud
    yield from _storage(spec, arns)
    yield from _image(arns)
    yield from _telemetry(arns)
    if place.kms_key:
        yield _key(arns, writing=place.travel.via == "job")
    if place.vpc is not None:
        yield _network()
    if place.travel.via == "job":
        yield from _job(spec, arns)


def _storage(spec: Spec, arns: Arns) -> Iterator[Grant]:
    yield Grant(
        sid="ListModel",
        actions=("s3:ListBucket",),
        resources=(arns.bucket,),
        why="SageMaker and the container's s5cmd list what they download",
    )
    in_artifact = spec.cloud.delivery == "artifact"
    weights = () if in_artifact else (f"weights/{arns.label}/",)
    yield Grant(
        sid="ReadModel",
        actions=("s3:GetObject",),
        resources=arns.objects(arns.artifacts, *weights),
        why="the artifact" + ("" if in_artifact else f" and the weights (delivery {spec.cloud.delivery})"),
    )


def _image(arns: Arns) -> Iterator[Grant]:
    yield Grant(
        sid="EnterRegistry",
        actions=("ecr:GetAuthorizationToken",),
        resources=("*",),
        why="the token for any registry; it has no resource of its own",
    )
    yield Grant(
        sid="PullImage",
        actions=("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"),
        resources=arns.repositories,
        why="the container's image",
    )


def _telemetry(arns: Arns) -> Iterator[Grant]:
    yield Grant(
        sid="WriteLogs",
        actions=WRITE_LOGS,
        resources=(arns.group, f"{arns.group}:*"),
        why="what the server prints; without it a failure has no log",
    )
    yield Grant(
        sid="WriteMetrics",
        actions=("cloudwatch:PutMetricData",),
        resources=("*",),
        why="load of the instances; the call knows no resource",
    )


def _key(arns: Arns, *, writing: bool) -> Grant:
    key, conditions = arns.key
    return Grant(
        sid="ReadEncrypted",
        actions=("kms:Decrypt", *(["kms:GenerateDataKey"] if writing else [])),
        resources=(key,),
        why="model files that are encrypted with the recipe's key",
        conditions=conditions,
    )


def _network() -> Grant:
    return Grant(
        sid="JoinNetwork",
        actions=(
            "ec2:CreateNetworkInterface",
            "ec2:CreateNetworkInterfacePermission",
            "ec2:DeleteNetworkInterface",
            "ec2:DeleteNetworkInterfacePermission",
            "ec2:DescribeDhcpOptions",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
        ),
        resources=("*",),
        why="the recipe's VPC: SageMaker puts network interfaces into it",
    )


def _job(spec: Spec, arns: Arns) -> Iterator[Grant]:
    yield Grant(
        sid="BringWeights",
        actions=WRITE_OBJECTS,
        resources=arns.objects(f"weights/{arns.label}/", f"manifests/{arns.label}/", JOBS),
        why="the transfer job writes the weights (weights.via: job)",
    )
    yield Grant(
        sid="ShareWeights",
        actions=("s3:GetObject",),
        resources=arns.objects("weights/", "manifests/"),
        why="files that another model has already are copied inside S3",
    )
    yield Grant(
        sid="ListUploads",
        actions=("s3:ListBucketMultipartUploads",),
        resources=(arns.bucket,),
        why="a job that was cut off goes on where it was",
    )
    group = arns.of("logs", "log-group:/aws/sagemaker/ProcessingJobs")
    yield Grant(
        sid="WriteJobLogs",
        actions=WRITE_LOGS,
        resources=(group, f"{group}:*"),
        why="what the job prints",
    )
    if spec.cloud.token_secret:
        yield Grant(
            sid="ReadToken",
            actions=("secretsmanager:GetSecretValue",),
            resources=(arns.secret,),
            why="the Hub token (weights.token_secret)",
        )
