"""IAM: roles checked before anything is created, and what `lmi bootstrap` makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lmi_deploy.domain.permissions import SAGEMAKER, Permission
from lmi_deploy.domain.role_setup import (
    Document,
    ObservedPolicy,
    ObservedRole,
    WantedPolicy,
    WantedProvider,
    WantedRole,
)


class Roles(Protocol):
    def assumable(self, role: str, service: str = SAGEMAKER) -> str:
        """Why this service may not assume the role of this ARN, in words; empty if it may. NotFound: no such role.

        AccessError if it may not be read.
        """

    def lacking(self, principal: str, rights: Sequence[Permission]) -> tuple[Permission, ...]:
        """Those that the principal's policies do not allow. AccessError if that may not be simulated."""


class IamSetup(Protocol):
    """Roles, managed policies and identity providers, read and changed. What is created has the tags SETUP_TAGS."""

    def role(self, name: str) -> ObservedRole | None: ...

    def create_role(self, role: WantedRole) -> None:
        """Without its policies. Nothing if it exists already, with the same trust policy."""

    def set_trust(self, role: WantedRole) -> None: ...

    def put_policy(self, role: str, policy: str, document: Document) -> None:
        """An inline policy of the role, created or replaced."""

    def attach(self, role: str, policy: str) -> None:
        """A managed policy, by its ARN."""

    def remove_policy(self, role: str, policy: str) -> None:
        """An inline policy of the role. Nothing if there is none."""

    def detach(self, role: str, policy: str) -> None:
        """A managed policy, by its ARN. Nothing if it is not attached."""

    def delete_role(self, name: str) -> None:
        """With its inline policies, after its managed policies were detached. Nothing if there is none."""

    def policy(self, arn: str) -> ObservedPolicy | None:
        """Its default version."""

    def create_policy(self, policy: WantedPolicy) -> None: ...

    def update_policy(self, policy: WantedPolicy) -> None:
        """By a new default version; IAM keeps five, and the oldest is deleted first."""

    def delete_policy(self, arn: str) -> None:
        """With its versions. Refused while it is attached to anything. Nothing if there is none."""

    def attached_to(self, arn: str) -> tuple[str, ...]:
        """What the managed policy of this ARN is attached to: "user NAME", "group NAME", "role NAME"."""

    def audiences(self, provider: str) -> tuple[str, ...] | None:
        """Of the identity provider of this ARN; None if there is none."""

    def create_provider(self, provider: WantedProvider) -> None: ...
