"""The roles that a recipe names, or leaves to lmi; `lmi iam` shows how to create them."""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.gathered_facts import AccountLocation
from lmi_deploy.errors import Unresolvable

ENDPOINT_ROLE: Final = "lmi-endpoint"
"""The execution role of endpoints, if the recipe names none."""
JOB_ROLE: Final = "lmi-transfer-job"
"""The role of transfer jobs, if the recipe names none."""
LOAD_ROLE: Final = "lmi-load-job"
"""The role of jobs that send load, if neither the recipe nor the command names one."""
ROLE_REMEDY: Final = "`lmi bootstrap` with its recipe sets up the role, `lmi iam` prints what it needs."
"""For a role that exists no more, or lacks a permission."""


def role_arn(role: str | None, cloud: AccountLocation, *, default: str, key: str) -> str:
    """The ARN of the role under this key of the recipe; a plain name is one of the caller's account."""
    if not role or not role.startswith("arn:"):
        return f"arn:{cloud.partition}:iam::{cloud.account}:role/{role or default}"
    _, partition, _, _, account, _ = role.split(":", 5)
    if (partition, account) != (cloud.partition, cloud.account):
        raise Unresolvable(
            f"{key}: {role} belongs to account {account} in {partition}, but you use {cloud.account} in "
            f"{cloud.partition}; SageMaker accepts only roles of the endpoint's account",
            hint="name a role of this account, or use credentials of the other account",
        )
    return role
