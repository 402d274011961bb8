"""The permissions that `lmi adopt` adds to a deployer's: names of resources that another tool chose."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.domain.s3_address import SCHEME
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignEndpoint


def adoption(foreign: ForeignEndpoint) -> Iterator[PolicyStatement]:
    """Exactly these resources; the deployer's policy has the endpoint itself."""
    config, model = foreign.config.arn, foreign.model.arn
    yield PolicyStatement(
        sid="TakeOver",
        actions=("sagemaker:AddTags", "sagemaker:ListTags"),
        resources=(foreign.endpoint.arn, config, model),
        why="read the tags of the endpoint, its config and its model, and tag them as lmi's",
    )
    yield PolicyStatement(
        sid="UseAdoptedConfig",
        actions=(
            "sagemaker:DeleteEndpointConfig",
            "sagemaker:DescribeEndpointConfig",
            "sagemaker:UpdateEndpoint",
        ),
        resources=(config,),
        why="read the config that it has now, roll back to it, delete it with the deployment",
    )
    yield PolicyStatement(
        sid="UseAdoptedModel",
        actions=("sagemaker:DeleteModel", "sagemaker:DescribeModel"),
        resources=(model,),
        why="the same of its model",
    )
    yield from _shared_use(foreign)
    yield from _model_location(foreign)


def _shared_use(foreign: ForeignEndpoint) -> Iterator[PolicyStatement]:
    of_account = foreign.endpoint.arn.rpartition(":")[0]
    yield PolicyStatement(
        sid="LookAtOthers",
        actions=("sagemaker:DescribeEndpoint", "sagemaker:DescribeEndpointConfig"),
        resources=(f"{of_account}:endpoint/*", f"{of_account}:endpoint-config/*"),
        why="see whether other endpoints use the same config or model; without it, `lmi down` deletes neither",
    )


def _model_location(foreign: ForeignEndpoint) -> Iterator[PolicyStatement]:
    address = foreign.model.archive or foreign.model.settings.artifact
    if not address:
        return
    bucket, _, path = address.removeprefix(SCHEME).partition("/")
    arn = f"arn:{foreign.endpoint.arn.split(':')[1]}:s3:::{bucket}"
    yield PolicyStatement(
        sid="ListModelData", actions=("s3:ListBucket",), resources=(arn,), why="list the model's files"
    )
    yield PolicyStatement(
        sid="ReadModelData",
        actions=("s3:GetObject",),
        resources=(f"{arn}/{path}*" if path.endswith("/") else f"{arn}/{path}",),
        why="read serving.properties and code for the recipe",
    )
