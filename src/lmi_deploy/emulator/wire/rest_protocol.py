"""The REST-JSON protocol: the operation is in the method and the path; parameters are in path, query and body."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import unquote

from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.service_models import service_model

SERVICES: Final = frozenset(("scheduler",))


def operation(service: str, method: str, path: str) -> tuple[str, dict[str, str]] | None:
    """The operation, and the parameters in the path."""
    for name, expected, pattern in _routes(service):
        if method == expected and (match := pattern.fullmatch(path)):
            return name, {key: unquote(value) for key, value in match.groupdict().items()}
    return None


@cache
def _routes(service: str) -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    model = service_model(service)
    found = [(name, model.operation_model(name).http) for name in model.operation_names]
    return tuple(
        (name, http["method"], re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", http["requestUri"])))
        for name, http in found
    )


def read(shape: Any, path: Mapping[str, str], query: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The parameters by the names of the shape's members."""
    params: dict[str, Any] = {}
    for name, member in shape.members.items():
        location, wire_name = member.serialization.get("location"), member.serialization.get("name", name)
        given = path if location == "uri" else query if location == "querystring" else {}
        if wire_name in given:
            params[name] = given[wire_name]
    try:
        content = json.loads(body) if body else {}
    except ValueError as exc:
        raise ApiError("SerializationException", "Unexpected token in the request's JSON") from exc
    if not isinstance(content, dict):
        raise ApiError("SerializationException", "Start of structure or map expected")
    return {**{key: value for key, value in content.items() if value is not None}, **params}
