"""The permissions to run `lmi bootstrap`: for its roles, its policy and its identity provider alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.default_bucket import REGIONAL_SUFFIX, default_bucket
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.domain.role_setup import WantedSetup
from lmi_deploy.targets.sagemaker.permissions import Policy, policies
from lmi_deploy.targets.sagemaker.permissions.arns import Arns
from lmi_deploy.targets.sagemaker.permissions.policy_statements import use_key

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
    arns = Arns(spec, prefix)
    key = (use_key(arns, actions=("kms:Decrypt",)),) if spec.cloud.kms_key else ()
    return Policy(grants=(*_statements(spec, wanted), _read_records(arns), *key, *bucket))


def _read_records(arns: Arns) -> PolicyStatement:
    """Of deployments in the recipe's bucket, and in the default one of each region."""
    # In some regions the default name has no suffix.
    partition = arns.spec.cloud.partition
    every = default_bucket(arns.spec.cloud.account, "*").removesuffix(REGIONAL_SUFFIX)
    buckets = tuple(dict.fromkeys((arns.bucket, f"arn:{partition}:s3:::{every}")))
    return PolicyStatement(
        sid="ReadRecords",
        actions=("s3:GetObject", "s3:ListBucket"),
        resources=(*buckets, *(f"{bucket}/{arns.records}*" for bucket in buckets)),
        why="read what the deployments that exist need of their roles",
    )


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
