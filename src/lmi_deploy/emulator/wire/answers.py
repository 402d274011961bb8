"""Values as botocore's shapes write them: nothing that the shape has not, times as numbers, bytes as base64."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lmi_deploy.emulator.wire.errors import ApiError


def written(shape: Any, value: Any) -> Any:
    """`value` (times as seconds since 1970 or datetimes) as JSON of this shape; absent members stay absent."""
    kind = shape.type_name
    if kind == "structure":
        return {
            member.serialization.get("name", name): written(member, value[name])
            for name, member in shape.members.items()
            if value.get(name) is not None
        }
    if kind == "list":
        return [written(shape.member, item) for item in value]
    if kind == "map":
        return {key: written(shape.value, item) for key, item in value.items()}
    if kind == "timestamp":
        return round(value.timestamp() if isinstance(value, datetime) else float(value), 3)
    if kind == "blob":
        return base64.b64encode(value).decode()
    return value


def request_id() -> str:
    return str(uuid.uuid4())


def error_body(error: ApiError) -> bytes:
    """The JSON protocols' form."""
    told: Mapping[str, Any] = {"__type": error.code, "message": error.message, **error.fields}
    return json.dumps(told).encode()
