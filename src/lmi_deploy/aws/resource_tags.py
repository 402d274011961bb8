"""The port ResourceTags: the tagging API, which may lag behind by some seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.domain.sagemaker.resource_fields import tag_pairs
from lmi_deploy.domain.sagemaker.resource_settings import TAG, Resource, ResourceKind, resource_kind

_KINDS: Final[tuple[ResourceKind, ...]] = tuple(
    kind for kind in get_args(ResourceKind) if kind != "adapter-component"
)
_ALARM: Final = "alarm"

_PAGE: Final = 100
"""The most that GetResources returns at once (its API reference, ResourcesPerPage); the default is 50."""


class AwsResourceTags:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "resourcegroupstaggingapi")

    def of(self, deployment: str) -> tuple[Resource, ...]:
        return self._found({"Key": TAG, "Values": [deployment]})

    def all(self) -> tuple[Resource, ...]:
        return self._found({"Key": TAG})

    def _found(self, required: Mapping[str, Any]) -> tuple[Resource, ...]:
        found = self._api.pages(
            "get_resources",
            f"resources tagged {TAG}",
            token="PaginationToken",
            items="ResourceTagMappingList",
            ResourcesPerPage=_PAGE,
            TagFilters=[required],
            ResourceTypeFilters=[_type(kind) for kind in _KINDS],
        )
        resources = (_resource(item["ResourceARN"], tag_pairs(item.get("Tags", ()))) for item in found)
        return tuple(resource for resource in resources if resource is not None)


def _type(kind: ResourceKind) -> str:
    """Service and kind, as GetResources takes them."""
    return f"{'cloudwatch' if kind == _ALARM else 'sagemaker'}:{kind}"


def _resource(arn: str, tags: tuple[tuple[str, str], ...]) -> Resource | None:
    """`arn:aws:sagemaker:<region>:<account>:<kind>/<name>`, of an alarm `arn:aws:cloudwatch:...:alarm:<name>`; None
    for a kind that lmi does not create.
    """
    last = arn.split(":", 5)[5]
    named, _, name = last.partition(":" if last.startswith(f"{_ALARM}:") else "/")
    kind = next((kind for kind in _KINDS if kind == named), None)
    return Resource(kind=resource_kind(kind, tags), name=name, arn=arn, tags=tags) if kind else None
