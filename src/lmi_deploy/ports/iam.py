"""Execution roles, checked before anything is created."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lmi_deploy.domain.permissions import SAGEMAKER, Permission


class Roles(Protocol):
    def assumable(self, role: str, service: str = SAGEMAKER) -> str:
        """Why this service may not assume the role of this ARN, in words; empty if it may. NotFound: no such role.

        AccessError if it may not be read.
        """

    def lacking(self, principal: str, rights: Sequence[Permission]) -> tuple[Permission, ...]:
        """Those that the principal's policies do not allow. AccessError if that may not be simulated."""
