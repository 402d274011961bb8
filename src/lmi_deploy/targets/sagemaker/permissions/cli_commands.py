"""How the documents become roles, with the AWS CLI.

IAM's quotas: 6,144 characters for a managed policy, 10,240 for all inline policies of a role together, whitespace not
counted (IAM user guide, "IAM and AWS STS quotas").
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.targets.sagemaker.permissions import Policies, Policy

MANAGED_MOST: Final = 6144
INLINE_MOST: Final = 10_240


def policy_base(spec: Spec, prefix: str) -> str:
    """What the names of the policies begin with. They name buckets and images of one region; IAM has no regions."""
    return f"lmi-{(prefix or spec.name).rstrip('-')}-{spec.cloud.region}"


def role_commands(
    spec: Spec, recipe: str, found: Policies, *, prefix: str = "", load_role: str = ""
) -> Iterator[str]:
    """Lines to copy. `recipe` is quoted for a shell, with the overlay and overrides that these policies follow from."""
    shared = f" --shared {shlex.quote(prefix)}" if prefix else ""
    policy, iam = policy_base(spec, prefix), f"lmi iam {recipe}{shared}"
    whom = f"for all deployments {prefix}*" if prefix else "for this deployment"
    role = spec.cloud.role
    yield f"Create the role {_name(role)} of the endpoint once, with an identity that may create roles:"
    yield f"  {iam} --part trust > trust.json"
    yield f"  {_create(role)}"
    yield f"Its permissions, {whom}:"
    yield from _put(iam, "execution", role, policy)
    place = spec.cloud
    jobs = (
        ("job", "transfer", place.job.role if place.job else ""),
        ("load", "load", load_role if found.load else ""),
        ("compile", "compile", place.compile.role if place.compile else ""),
    )
    for part, kind, job_role in jobs:
        if job_role:
            yield f"Create the role {_name(job_role)} of the {kind} job, with its permissions:"
            yield f"  {_create(job_role)}"
            yield from _put(iam, part, job_role, f"{policy}-{part}")
    if found.scheduler is not None:
        role = spec.cloud.scheduler_role
        yield f"Create the role {_name(role)} that deletes the endpoint at its expiry, with its permissions:"
        yield f"  {iam} --part scheduler-trust > scheduler-trust.json"
        yield f"  {_create(role, 'scheduler-trust.json')}"
        yield from _put(iam, "scheduler", role, f"{policy}-scheduler")
    yield "Permissions to deploy it: attach them to your user or role:"
    yield f"  {iam} --part deployer > deployer.json"
    yield f"  aws iam {_attach(policy, found.deployer.characters)} --policy-document file://deployer.json"
    if not prefix:
        yield _characters_left(iam, found.execution)


def _name(role: str) -> str:
    """The last part of its path."""
    return role.rpartition("/")[2]


def _create(role: str, trust: str = "trust.json") -> str:
    path, _, name = role.partition(":role/")[2].rpartition("/")
    within = f" --path {shlex.quote(f'/{path}/')}" if path else ""
    return (
        f"aws iam create-role --role-name {shlex.quote(name)}{within} "
        f"--assume-role-policy-document file://{trust}"
    )


def _put(iam: str, part: str, role: str, policy: str) -> Iterator[str]:
    yield f"  {iam} --part {part} > {part}.json"
    yield (
        f"  aws iam put-role-policy --role-name {shlex.quote(_name(role))} --policy-name {policy} "
        f"--policy-document file://{part}.json"
    )


def _attach(policy: str, characters: int) -> str:
    """A policy that is too long for a managed policy still fits into a role's inline policy."""
    if characters <= MANAGED_MOST:
        return f"create-policy --policy-name {policy}-deployer"
    return f"put-role-policy --role-name YOUR-ROLE --policy-name {policy}-deployer"


def _characters_left(iam: str, execution: Policy) -> str:
    return (
        f"The policies of a role may have {INLINE_MOST:,} characters in total: "
        f"{INLINE_MOST // execution.characters} deployments like this one. For more, `{iam} --shared PREFIX` prints "
        "one policy for all whose names begin with PREFIX."
    )
