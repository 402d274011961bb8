"""AddTags, ListTags, DeleteTags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import Ask, Operation, World, tag_list, tags_of
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.naming import Kind, by_arn
from lmi_deploy.emulator.wire.errors import ApiError, refused

MAX_TAGS: Final = 50


def add_tags(world: World, ask: Ask) -> Mapping[str, Any]:
    kind, name, row = _tagged(world, ask)
    wanted = {**row.get("tags", {}), **require_good(tags_of(ask.params))}
    if len(wanted) > MAX_TAGS:
        raise ApiError("ResourceLimitExceeded", f"A resource can have at most {MAX_TAGS} tags.")
    row["tags"] = wanted
    world.table(kind.table, ask.region).put(name, row)
    return {"Tags": tag_list(row)}


def list_tags(world: World, ask: Ask) -> Mapping[str, Any]:
    _, _, row = _tagged(world, ask)
    return {"Tags": tag_list(row)}


def delete_tags(world: World, ask: Ask) -> Mapping[str, Any]:
    kind, name, row = _tagged(world, ask)
    for key in ask.params["TagKeys"]:
        row.get("tags", {}).pop(key, None)
    world.table(kind.table, ask.region).put(name, row)
    return {}


def require_good(tags: dict[str, str]) -> dict[str, str]:
    for key in tags:
        if key.lower().startswith("aws:"):
            raise refused("aws: prefixed tag key names are not allowed for external use.")
    return tags


def _tagged(world: World, ask: Ask) -> tuple[Kind, str, Row]:
    arn = ask.params["ResourceArn"]
    found = by_arn(world, arn)
    if found is None or found[1] != ask.region:
        raise refused(f'Could not find resource "{arn}".')
    return found[0], found[2], found[3]


OPERATIONS: Final[Mapping[str, Operation]] = {
    "AddTags": add_tags,
    "ListTags": list_tags,
    "DeleteTags": delete_tags,
}
