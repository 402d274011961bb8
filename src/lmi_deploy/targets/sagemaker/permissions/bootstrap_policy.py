"""The permissions to run `lmi bootstrap`: for its roles, its policy and its identity provider alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.domain.role_setup import WantedSetup
from lmi_deploy.targets.sagemaker.permissions import Policy, policies

_OF_THE_DEPLOYER: Final = ("LookIntoBucket", "MakeBucket")


def bootstrap_policy(spec: Spec, wanted: WantedSetup, *, prefix: str = "") -> Policy:
    deployer = policies(spec, prefix=prefix).deployer
    bucket = (statement for statement in deployer.grants if statement.sid in _OF_THE_DEPLOYER)
    return Policy(grants=(*_statements(spec, wanted), *bucket))


def _statements(spec: Spec, wanted: WantedSetup) -> Iterator[PolicyStatement]:
    place = spec.cloud
    root = f"arn:{place.partition}:iam::{place.account}:role"
    yield PolicyStatement(
        sid="SetUpRoles",
        actions=(
            "iam:AttachRolePolicy",
            "iam:CreateRole",
            "iam:DeleteRole",
            "iam:DeleteRolePolicy",
            "iam:DetachRolePolicy",
            "iam:GetRole",
            "iam:GetRolePolicy",
            "iam:ListAttachedRolePolicies",
            "iam:ListRolePolicies",
            "iam:PutRolePolicy",
            "iam:TagRole",
            "iam:UpdateAssumeRolePolicy",
        ),
        resources=tuple(f"{root}{role.path}{role.name}" for role in wanted.roles),
        why="create the roles with their policies, compare them, and delete them",
    )
    if wanted.policy is not None:
        yield PolicyStatement(
            sid="SetUpPolicy",
            actions=(
                "iam:CreatePolicy",
                "iam:CreatePolicyVersion",
                "iam:DeletePolicy",
                "iam:DeletePolicyVersion",
                "iam:GetPolicy",
                "iam:GetPolicyVersion",
                "iam:ListPolicyVersions",
                "iam:TagPolicy",
            ),
            resources=(wanted.policy.arn,),
            why="create the deployer's policy, replace it, and delete it",
        )
    if wanted.provider is not None:
        yield PolicyStatement(
            sid="SetUpProvider",
            actions=(
                "iam:CreateOpenIDConnectProvider",
                "iam:GetOpenIDConnectProvider",
                "iam:TagOpenIDConnectProvider",
            ),
            resources=(wanted.provider.arn,),
            why="create the identity provider of the pipeline",
        )
