"""The permissions to run `lmi bootstrap`: for its roles, its policy and its identity provider alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.domain.role_setup import WantedSetup
from lmi_deploy.targets.sagemaker.permissions import Policy, policies

_OF_THE_DEPLOYER: Final = ("FindByTag", "LookIntoBucket", "MakeBucket")
_OF_ROLES: Final = (
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
)
_OF_POLICIES: Final = (
    "iam:CreatePolicy",
    "iam:CreatePolicyVersion",
    "iam:DeletePolicy",
    "iam:DeletePolicyVersion",
    "iam:GetPolicy",
    "iam:GetPolicyVersion",
    "iam:ListEntitiesForPolicy",
    "iam:ListPolicyVersions",
    "iam:TagPolicy",
)
_OF_PROVIDERS: Final = (
    "iam:CreateOpenIDConnectProvider",
    "iam:GetOpenIDConnectProvider",
    "iam:TagOpenIDConnectProvider",
)


def bootstrap_policy(spec: Spec, wanted: WantedSetup, *, prefix: str = "") -> Policy:
    deployer = policies(spec, prefix=prefix).deployer
    bucket = (statement for statement in deployer.grants if statement.sid in _OF_THE_DEPLOYER)
    return Policy(grants=(*_statements(spec, wanted), *bucket))


def _statements(spec: Spec, wanted: WantedSetup) -> Iterator[PolicyStatement]:
    place = spec.cloud
    root = f"arn:{place.partition}:iam::{place.account}:role"
    yield PolicyStatement(
        sid="SetUpRoles",
        actions=_OF_ROLES,
        resources=tuple(f"{root}{role.path}{role.name}" for role in wanted.roles),
        why="create the roles with their policies, compare them, and delete them",
    )
    if wanted.policy is not None:
        why = "create the deployer's policy, replace it, and delete it"
        yield PolicyStatement(
            sid="SetUpPolicy", actions=_OF_POLICIES, resources=(wanted.policy.arn,), why=why
        )
    if wanted.provider is not None:
        why = "create the identity provider of the pipeline"
        yield PolicyStatement(
            sid="SetUpProvider", actions=_OF_PROVIDERS, resources=(wanted.provider.arn,), why=why
        )
