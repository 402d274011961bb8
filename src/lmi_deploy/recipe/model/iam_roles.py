"""How a recipe names an IAM role."""

from __future__ import annotations

import re

from lmi_deploy.catalog import limits
from lmi_deploy.recipe.model.scalar_types import InvalidValue, ScalarType
from lmi_deploy.recipe.yaml.tree import quoted

_ROLE_NAME = re.compile(r"([A-Za-z0-9_+=,.@-]{1,64}/){0,4}[A-Za-z0-9_+=,.@-]{1,64}")
"""IAM's rule for a role's name, with the path before it that some roles have."""


def role() -> ScalarType:
    """An IAM role."""
    return ScalarType("role ARN, or the name of a role in the account", _role)


def _role(text: str) -> str:
    if _ROLE_NAME.fullmatch(text):
        return text
    error = limits.text_error("role", text)
    if error:
        raise InvalidValue(
            f"{quoted(text)} is neither a role ARN nor a role name",
            "write arn:aws:iam::<account>:role/<name>",
        )
    return text
