"""Container images as SageMaker's front end looks at them: is it ECR, is it this region, may it be pulled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.catalog import images
from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.wire.errors import refused

_ECR: Final = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|[a-z0-9.-]+)"
    r"/(?P<repository>[^:@]+)(?::(?P<tag>[^@]+))?(?P<digest>@sha256:[0-9a-f]{64})?"
)


def require_container_image(context: EmulatorContext, region: str, container: Mapping[str, Any]) -> None:
    access = container.get("ImageConfig", {}).get("RepositoryAccessMode", "Platform")
    if access != "Vpc":
        require_image(context, region, container["Image"])


def require_image(context: EmulatorContext, region: str, image: str) -> None:
    parts = _ECR.fullmatch(image)
    if ".dkr.ecr" not in image:
        raise refused(f'Using non-ECR image "{image}" without Vpc repository access mode is not supported.')
    if parts is None or not (parts["tag"] or parts["digest"]):
        raise refused(f'ECR image "{image}" is invalid.')
    if parts["region"] != region:
        raise refused(
            f'Region of "{image}" does not match expected region of {region}. '
            "Cross region ECR image pulls are not allowed."
        )
    _require_pullable(context, region, image, parts)


def _require_pullable(context: EmulatorContext, region: str, image: str, parts: re.Match[str]) -> None:
    """Repositories of the user's account are not emulated: an image that is named there is taken to exist."""
    if parts["account"] == context.account:
        return
    if parts["account"] not in images.accounts(region):
        raise refused(
            f"The repository of your image {image} does not grant ecr:GetDownloadUrlForLayer, "
            "ecr:BatchGetImage, ecr:BatchCheckLayerAvailability permission to sagemaker.amazonaws.com "
            "service principal."
        )
    known = images.tags(parts["repository"])
    if known and parts["tag"] and not any(_is_of(parts["tag"], tag) for tag in known):
        raise refused(f"Requested image {image} not found.")


def _is_of(tag: str, known: str) -> bool:
    """The very tag, or one of its rebuilds (`-v1.2`)."""
    return tag == known or tag.startswith(f"{known}-v")
