"""The image table of the installed SageMaker SDK: for comparison, never used by a deployment.

Its import takes seconds (it imports pandas and scipy), so it is used only on request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType
from typing import Final

from lmi_deploy.errors import NotInstalled, Unresolvable

_INSTANCES: Final = ("ml.g5.xlarge", "ml.c5.xlarge", "ml.inf2.xlarge", None)
"""One for each kind of device for which the SDK has its own tags; none if it fails with all (its neuronx families)."""


def families() -> tuple[str, ...]:
    """The families for which the SDK has images, including training. UsageRefused if it is not installed."""
    return tuple(_sdk().list_frameworks())


def uris(family: str, region: str) -> Iterator[tuple[str, str]]:
    """Version and address, as the SDK would give them, newest first; of several names of one image the longest."""
    sdk = _sdk()
    if family not in sdk.list_frameworks():
        raise Unresolvable(
            f"the SDK lists no images of {family!r}", hint="`lmi images --source sdk` lists them"
        )
    found: dict[str, str] = {}
    for version in sorted(sdk.list_versions(family), key=len, reverse=True):
        for uri in _retrieved(sdk, family, version, region):
            found.setdefault(uri, version)
    yield from sorted(((version, uri) for uri, version in found.items()), key=_order, reverse=True)


def _retrieved(sdk: ModuleType, family: str, version: str, region: str) -> Iterator[str]:
    for instance in _INSTANCES:
        try:
            yield sdk.retrieve(family, region, version=version, instance_type=instance)
        except (ValueError, KeyError, FileNotFoundError):
            continue  # no such image for such an instance, or not in this region


def _order(image: tuple[str, str]) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", image[0]))


def _sdk() -> ModuleType:
    try:
        from sagemaker.core import image_uris  # type: ignore[import-not-found]
    except ModuleNotFoundError as reason:
        raise NotInstalled(
            "sagemaker", instead=", or omit --source sdk: the packaged table was generated from it"
        ) from reason
    module: ModuleType = image_uris
    return module
