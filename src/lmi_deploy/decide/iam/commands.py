"""How the documents become a role, with the AWS CLI."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from lmi_deploy.core.spec import Spec

MANAGED_MOST: Final = 6144
"""Characters of a policy of its own, blanks not counted; those of a role may have 10,240 together (IAM's quotas)."""


def role_commands(spec: Spec, recipe: str, *, characters: int = 0) -> Iterator[str]:
    """Lines to copy; `characters` are those of the deployer's policy. A role's name is the last part of its path.

    `recipe` is quoted for a shell, with the overlay and the overrides that this very policy follows from.
    """
    path, _, name = spec.cloud.role.partition(":role/")[2].rpartition("/")
    role, policy = shlex.quote(name), f"lmi-{spec.name}"
    within = f" --path {shlex.quote(f'/{path}/')}" if path else ""
    yield f"The role {name}, which the endpoint runs with, is made once, by somebody who may:"
    yield f"  lmi iam {recipe} --part trust > trust.json"
    yield f"  aws iam create-role --role-name {role}{within} --assume-role-policy-document file://trust.json"
    yield "Its rights, for this deployment:"
    yield f"  lmi iam {recipe} --part execution > execution.json"
    yield (
        f"  aws iam put-role-policy --role-name {role} --policy-name {policy} "
        "--policy-document file://execution.json"
    )
    yield "The rights of who deploys it, to be attached to a user or a role of yours:"
    yield f"  lmi iam {recipe} --part deployer > deployer.json"
    yield f"  aws iam {_attach(policy, characters)} --policy-document file://deployer.json"


def _attach(policy: str, characters: int) -> str:
    """One that is too long for a policy of its own still is short enough for a role's."""
    if characters <= MANAGED_MOST:
        return f"create-policy --policy-name {policy}-deployer"
    return f"put-role-policy --role-name YOUR-ROLE --policy-name {policy}-deployer"
