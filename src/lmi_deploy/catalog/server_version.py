"""Which DJLServing a recipe means, by its version or its image."""

from __future__ import annotations

import re

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
