"""Names of deployments: their form, and one from a model's name."""

from __future__ import annotations

import re

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME = 48


def name_for(model_id: str) -> str:
    """A deployment's name from the model's, shortened so that an overlay's name fits; invalid characters become
    dashes.
    """
    last = model_id.rstrip("/").rpartition("/")[2]
    name = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")
    return name[: MAX_NAME - 8].strip("-") or "model"


def name_error(name: str) -> str:
    """Why `name` cannot be a deployment's name, or an empty string (design section 2)."""
    if not NAME.fullmatch(name):
        return "use lower case letters, digits and single dashes between them"
    if len(name) > MAX_NAME:
        return f"{len(name)} characters, at most {MAX_NAME}"
    return ""


def prefix_error(prefix: str, name: str) -> str:
    """Why `prefix` does not fit names such as `name`, or an empty string."""
    if not NAME.fullmatch(prefix.removesuffix("-")):
        return "use lower case letters, digits and single dashes between them, such as team-a-"
    if not name.startswith(prefix):
        return f"the recipe's name is {name}, which does not begin with this prefix"
    return ""
