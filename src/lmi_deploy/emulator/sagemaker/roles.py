"""The role of a new resource: SageMaker must be able to assume it."""

from __future__ import annotations

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.wire.errors import refused


def require_role(context: EmulatorContext, role: str) -> None:
    if not context.roles.trusts(role, "sagemaker.amazonaws.com"):
        raise refused(
            f"Could not assume role {role}. Please ensure that the role exists and allows principal "
            "'sagemaker.amazonaws.com' to assume the role."
        )
