"""What a principal may do: as one permission to check, and as a grant in a policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SAGEMAKER: Final = "sagemaker.amazonaws.com"
SCHEDULER: Final = "scheduler.amazonaws.com"
"""The services that assume our roles."""
Condition = tuple[str, str, tuple[str, ...]]
"""Operator, key and values, such as ("StringEquals", "iam:PassedToService", ("sagemaker.amazonaws.com",))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """One action on one resource (an ARN, or *)."""

    action: str
    resource: str
    context: tuple[tuple[str, str], ...] = ()
    """The conditions of its use: condition keys and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStatement:
    """One statement of a policy, with its reason in words. All its conditions must be true."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    why: str
    conditions: tuple[Condition, ...] = ()

    @property
    def rights(self) -> tuple[Permission, ...]:
        """Each action on each resource. A wildcard in place of a digest's digits is replaced by such digits."""
        existing = tuple((key, values[0]) for _, key, values in self.conditions)
        return tuple(
            Permission(action=action, resource=resource.replace("?", "0"), context=existing)
            for resource in self.resources
            for action in self.actions
        )
