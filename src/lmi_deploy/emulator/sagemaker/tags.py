"""AddTags, ListTags, DeleteTags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation, tag_list, tags_of
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.resources import Kind, by_arn, require_valid_tags
from lmi_deploy.emulator.wire.errors import ApiError, refused

MAX_TAGS: Final = 50


def add_tags(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    kind, name, row = _tagged(context, request)
    requested = {**row.get("tags", {}), **require_valid_tags(tags_of(request.params))}
    if len(requested) > MAX_TAGS:
        raise ApiError("ResourceLimitExceeded", f"A resource can have at most {MAX_TAGS} tags.")
    row["tags"] = requested
    context.table(kind.table, request.region).put(name, row)
    return {"Tags": tag_list(row)}


def list_tags(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    _, _, row = _tagged(context, request)
    return {"Tags": tag_list(row)}


def delete_tags(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    kind, name, row = _tagged(context, request)
    for key in request.params["TagKeys"]:
        row.get("tags", {}).pop(key, None)
    context.table(kind.table, request.region).put(name, row)
    return {}


def _tagged(context: EmulatorContext, request: ApiRequest) -> tuple[Kind, str, Row]:
    arn = request.params["ResourceArn"]
    found = by_arn(context, arn)
    if found is None or found[1] != request.region:
        raise refused(f'Could not find resource "{arn}".')
    return found[0], found[2], found[3]


OPERATIONS: Final[Mapping[str, Operation]] = {
    "AddTags": add_tags,
    "ListTags": list_tags,
    "DeleteTags": delete_tags,
}
