"""The tagging API: SageMaker's resources by their tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.emulator.sagemaker.naming import KINDS
from lmi_deploy.emulator.store import Row
from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.world import Ask, Operation, World, tag_list

PAGE: Final = 50


def get_resources(world: World, ask: Ask) -> Mapping[str, Any]:
    params = ask.params
    arns = params.get("ResourceARNList")
    found = [
        row
        for row in _tagged(world, ask)
        if all(_fits(row["tags"], wanted) for wanted in params.get("TagFilters", ()))
        and (arns is None or row["arn"] in arns)
    ]
    try:
        start = int(params.get("PaginationToken") or "0")
    except ValueError as exc:
        raise ApiError("InvalidParameterException", "Invalid pagination token") from exc
    stop = start + int(params.get("ResourcesPerPage", PAGE))
    return {
        "ResourceTagMappingList": [
            {"ResourceARN": row["arn"], "Tags": tag_list(row)} for row in found[start:stop]
        ],
        "PaginationToken": str(stop) if stop < len(found) else "",
    }


def _tagged(world: World, ask: Ask) -> Iterator[Row]:
    """What has tags, of the types asked for (`sagemaker`, `sagemaker:endpoint`)."""
    wanted = ask.params.get("ResourceTypeFilters")
    for kind in KINDS:
        if wanted and not {"sagemaker", f"sagemaker:{kind.arn}"} & set(wanted):
            continue
        for _, row in sorted(world.table(kind.table, ask.region).rows()):
            if row["tags"]:
                yield row


def _fits(tags: Mapping[str, str], wanted: Mapping[str, Any]) -> bool:
    values = wanted.get("Values") or ()
    return wanted["Key"] in tags and (not values or tags[wanted["Key"]] in values)


OPERATIONS: Final[Mapping[str, Operation]] = {"GetResources": get_resources}
