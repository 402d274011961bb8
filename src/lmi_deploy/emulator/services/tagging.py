"""The tagging API: SageMaker's resources by their tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation, tag_list
from lmi_deploy.emulator.sagemaker.naming import KINDS
from lmi_deploy.emulator.wire.errors import ApiError

PAGE: Final = 50


def get_resources(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params = request.params
    arns = params.get("ResourceARNList")
    found = [
        (arn, tags)
        for arn, tags in _tagged(context, request)
        if all(_fits(tags, requested) for requested in params.get("TagFilters", ()))
        and (arns is None or arn in arns)
    ]
    try:
        start = int(params.get("PaginationToken") or "0")
    except ValueError as exc:
        raise ApiError("InvalidParameterException", "Invalid pagination token") from exc
    stop = start + int(params.get("ResourcesPerPage", PAGE))
    return {
        "ResourceTagMappingList": [
            {"ResourceARN": arn, "Tags": tag_list({"tags": tags})} for arn, tags in found[start:stop]
        ],
        "PaginationToken": str(stop) if stop < len(found) else "",
    }


def _tagged(context: EmulatorContext, request: ApiRequest) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The tagged resources by the index, which may lag behind, of the requested types (`sagemaker`,
    `sagemaker:endpoint`).
    """
    requested = request.params.get("ResourceTypeFilters")
    for kind in KINDS:
        if requested and not {"sagemaker", f"sagemaker:{kind.arn}"} & set(requested):
            continue
        yield from context.tags.visible(kind.table, request.region)


def _fits(tags: Mapping[str, str], required: Mapping[str, Any]) -> bool:
    values = required.get("Values") or ()
    return required["Key"] in tags and (not values or tags[required["Key"]] in values)


OPERATIONS: Final[Mapping[str, Operation]] = {"GetResources": get_resources}
