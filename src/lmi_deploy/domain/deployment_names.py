"""Names of deployments: their form, and one from a model's name."""

from __future__ import annotations

import hashlib
import re

from lmi_deploy.errors import UsageRefused

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME = 48
_LEAST_ROOM = 8
"""For a digest of a branch, and one character of its name."""


def name_for(model_id: str) -> str:
    """A deployment's name from the model's, shortened so that an overlay's name fits; invalid characters become
    dashes.
    """
    last = model_id.rstrip("/").rpartition("/")[2]
    name = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")
    return name[: MAX_NAME - 8].strip("-") or "model"


def preview_name(base: str, branch: str, overlay: str = "") -> str:
    """The name of a preview of a branch or a pull request, the same each time; an overlay's name is appended by itself.
    Two branches never get the same one: a name that is cut or rewritten ends with a digest of the branch.
    """
    word = re.sub(r"[^a-z0-9]+", "-", branch.lower()).strip("-")
    room = MAX_NAME - len(base) - 1 - (len(overlay) + 1 if overlay else 0)
    if room < _LEAST_ROOM:
        raise UsageRefused(
            f"{base}: too long for previews, whose names have {MAX_NAME} characters at most",
            hint=f"use a name of at most {MAX_NAME - 1 - _LEAST_ROOM} characters, with the overlay",
        )
    if word != branch or len(word) > room:
        mark = hashlib.sha256(branch.encode()).hexdigest()[:6]
        word = f"{word[: room - 7].strip('-')}-{mark}".strip("-")
    return f"{base}-{word}"


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
