"""The permissions for a model on a shared endpoint.

Resources: Service Authorization Reference, "Amazon SageMaker" (CreateInferenceComponent: endpoint and
inference-component; ListInferenceComponents: none).
"""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.targets.sagemaker.permissions.arns import Arns


def use_components(arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="UseComponent",
        actions=(
            "sagemaker:CreateInferenceComponent",
            "sagemaker:DeleteInferenceComponent",
            "sagemaker:UpdateInferenceComponent",
            "sagemaker:UpdateInferenceComponentRuntimeConfig",
        ),
        resources=(*arns.endpoints[1:], *arns.own_components),
        why="the model on the shared endpoint, its copies and its adapters; the other models on it are not its own",
    )
    yield PolicyStatement(
        sid="LookAtComponents",
        actions=("sagemaker:DescribeInferenceComponent",),
        resources=(arns.components,),
        why="see how much of the shared endpoint the other models take",
    )
    yield PolicyStatement(
        sid="ListComponents",
        actions=("sagemaker:ListInferenceComponents",),
        resources=("*",),
        why="see which models a shared endpoint has; the call has no resource",
    )
