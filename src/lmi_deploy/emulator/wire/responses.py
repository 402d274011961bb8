"""Values as botocore's shapes write them: nothing that the shape has not; in JSON times as numbers, bytes as base64."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from lmi_deploy.emulator.wire.errors import ApiError

Leaf = Callable[[str, Any], Any]
"""How a protocol writes a simple value, by the kind of its shape; times are seconds since 1970."""


def written(shape: Any, value: Any, leaf: Leaf) -> Any:
    """`value` (times as seconds since 1970 or datetimes) in this shape; absent members stay absent."""
    kind = shape.type_name
    if kind == "structure":
        return {
            member.serialization.get("name", name): written(member, value[name], leaf)
            for name, member in shape.members.items()
            if value.get(name) is not None
        }
    if kind == "list":
        return [written(shape.member, item, leaf) for item in value]
    if kind == "map":
        return {key: written(shape.value, item, leaf) for key, item in value.items()}
    if kind == "timestamp":
        return leaf(kind, value.timestamp() if isinstance(value, datetime) else float(value))
    return leaf(kind, value)


def as_json(kind: str, value: Any) -> Any:
    if kind == "timestamp":
        return round(value, 3)
    return base64.b64encode(value).decode() if kind == "blob" else value


def request_id() -> str:
    return str(uuid.uuid4())


def error_body(error: ApiError) -> bytes:
    """The JSON protocols' form."""
    description: Mapping[str, Any] = {"__type": error.code, "message": error.message, **error.fields}
    return json.dumps(description).encode()
