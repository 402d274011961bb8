"""The part of the composition root that uses SageMaker's SDK, if it is installed."""

from __future__ import annotations

from collections.abc import Iterator


def sdk_families() -> tuple[str, ...]:
    """Every family of images that the installed SDK knows."""
    from lmi_deploy.aws.sagemaker import sdk

    return sdk.families()


def sdk_images(family: str, region: str) -> Iterator[tuple[str, str]]:
    """Version and address of every image of a family in a region, as the installed SDK gives them."""
    from lmi_deploy.aws.sagemaker import sdk

    return sdk.uris(family, region)
