"""Which DJLServing a recipe means, by its version or its image."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lmi_deploy.catalog import images
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import Unresolvable

FAMILIES: Final = {"vllm": "djl-lmi", "accelerate": "djl-lmi", "custom": "djl-lmi"}
"""The images of an engine; a test compares it with the engines."""
_ANY_REGION: Final = "us-east-1"
"""The list of all published images."""
_VERSION = re.compile(r"([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})(?:-lmi([0-9]{1,3})\b)?")


def server_tag(version: str | None, image: str | None) -> str:
    """The recipe's version, else the tag of an image of AWS's; empty: neither is given."""
    return version or (image.rpartition(":")[2] if image and "/djl-inference:" in image else "")


def server_version(version: str | None, image: str | None) -> tuple[str, str]:
    """DJLServing's version and the number of the LMI image, from the recipe; empty: not given.

    `0.36.0-lmi20.0.0-cu128`, a version or the tag of an image of AWS's, is a server 0.36.0 in the image lmi20.
    """
    found = _VERSION.match(server_tag(version, image))
    return (found[1], found[2] or "") if found else ("", "")


@dataclass(frozen=True, slots=True)
class Server:
    """A DJLServing, and the number of its LMI image where it has one."""

    number: str
    image: int | None = None

    def __str__(self) -> str:
        return self.number if self.image is None else f"{self.number}/lmi{self.image}"


def recipe_server(recipe: Recipe) -> Server | None:
    """`shipped_server` of a complete recipe."""
    container, local = recipe.container, recipe.endpoint.target == "local"
    return shipped_server(recipe.engine, container.version, container.image, local=local)


def shipped_server(engine: str, version: str | None, image: str | None, *, local: bool) -> Server | None:
    """The server of the very image that a recipe ships. None: it is unknown, as in an image of the user's own.

    Without a version it is the newest image of the family; on this machine lmi has its own.
    """
    if image is None and not local:
        with suppress(Unresolvable):
            version = images.image(FAMILIES.get(engine, "djl-lmi"), version or "", _ANY_REGION).tag
    number, lmi = server_version(version, image)
    return Server(number, int(lmi) if lmi else None) if number else None
