"""ListTagsForResource, TagResource and UntagResource of the services beside SageMaker, over records with an `arn`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmi_deploy.emulator.context import Ask, Operation, World, tag_list, tags_of
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.wire.errors import ApiError


def operations(table: str) -> Mapping[str, Operation]:
    """Tags are told as they were given: a map, or a list of Key and Value."""

    def listed(world: World, ask: Ask) -> Mapping[str, Any]:
        _, row = _held(world, ask, table)
        return {"Tags": tag_list(row) if row.get("tags_listed") else row.get("tags", {})}

    def tag(world: World, ask: Ask) -> None:
        name, row = _held(world, ask, table)
        world.table(table, ask.region).put(name, {**row, "tags": {**row.get("tags", {}), **given(ask)}})

    def untag(world: World, ask: Ask) -> None:
        name, row = _held(world, ask, table)
        left = {key: value for key, value in row.get("tags", {}).items() if key not in ask.params["TagKeys"]}
        world.table(table, ask.region).put(name, {**row, "tags": left})

    return {"ListTagsForResource": listed, "TagResource": tag, "UntagResource": untag}


def given(ask: Ask) -> dict[str, str]:
    tags = ask.params.get("Tags") or {}
    return dict(tags) if isinstance(tags, Mapping) else tags_of(ask.params)


def _held(world: World, ask: Ask, table: str) -> tuple[str, Row]:
    arn = ask.params["ResourceARN"]
    for name, row in world.table(table, ask.region).rows():
        if row.get("arn") == arn:
            return name, row
    raise ApiError("ResourceNotFoundException", f"No resource found with ARN: {arn}", status=404)
