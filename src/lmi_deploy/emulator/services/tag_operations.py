"""ListTagsForResource, TagResource and UntagResource of the services beside SageMaker, over records with an `arn`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation, tag_list, tags_of
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.wire.errors import ApiError


def operations(table: str) -> Mapping[str, Operation]:
    """Tags are returned in the form in which they were given: a map, or a list of Key and Value."""

    def listed(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
        _, row = _find_row(context, request, table)
        return {"Tags": tag_list(row) if row.get("tags_listed") else row.get("tags", {})}

    def tag(context: EmulatorContext, request: ApiRequest) -> None:
        name, row = _find_row(context, request, table)
        context.table(table, request.region).put(
            name, {**row, "tags": {**row.get("tags", {}), **initial_tags(request)}}
        )

    def untag(context: EmulatorContext, request: ApiRequest) -> None:
        name, row = _find_row(context, request, table)
        left = {
            key: value for key, value in row.get("tags", {}).items() if key not in request.params["TagKeys"]
        }
        context.table(table, request.region).put(name, {**row, "tags": left})

    return {"ListTagsForResource": listed, "TagResource": tag, "UntagResource": untag}


def initial_tags(request: ApiRequest) -> dict[str, str]:
    tags = request.params.get("Tags") or {}
    return dict(tags) if isinstance(tags, Mapping) else tags_of(request.params)


def _find_row(context: EmulatorContext, request: ApiRequest, table: str) -> tuple[str, Row]:
    arn = request.params["ResourceARN"]
    for name, row in context.table(table, request.region).rows():
        if row.get("arn") == arn:
            return name, row
    raise ApiError("ResourceNotFoundException", f"No resource found with ARN: {arn}", status=404)
