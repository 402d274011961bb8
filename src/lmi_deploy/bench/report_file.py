"""The JSON file of a report, its JSON Schema, and reading it back."""

from __future__ import annotations

import dataclasses
import json
import types
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from lmi_deploy.bench.report import SCHEMA, VERSION, Report
from lmi_deploy.domain import dataclass_json
from lmi_deploy.errors import UsageRefused

_TYPES: Final[dict[Any, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def to_json(report: Report) -> str:
    """One line a point would be unreadable, one line a number too: indented, without the histograms' lines."""
    fields = dataclass_json.dump(report)
    points = fields.pop("points")
    head = json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
    lines = ",\n".join(f"    {json.dumps(point, ensure_ascii=False, allow_nan=False)}" for point in points)
    return f'{head},\n  "points": [\n{lines}\n  ]\n}}\n'


def from_json(text: str, where: str) -> Report:
    """UsageRefused, with `where` and the reason, of anything else than a report that this version can read."""
    try:
        value = json.loads(text)
    except ValueError as reason:
        raise _refused(where, f"not JSON ({reason})") from None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise _refused(where, f"not a report of `lmi bench`: it has no schema {SCHEMA}")
    version = value.get("version")
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        advice = "install the lmi that wrote it, or a newer one" if newer else "measure again"
        raise UsageRefused(
            f"{where}: a report of schema version {version}; this lmi reads version {VERSION}", hint=advice
        )
    try:
        return dataclass_json.load(Report, value)
    except ValueError as reason:
        raise _refused(where, f"a damaged report: {reason}") from None


def _refused(where: str, reason: str) -> UsageRefused:
    return UsageRefused(f"{where}: {reason}", hint="name a JSON file that `lmi bench --output` wrote")


def json_schema() -> dict[str, Any]:
    """Of version 1, from the declarations in `report.py`. Readers must ignore fields that they do not know."""
    definitions: dict[str, Any] = {}
    _schema_of(Report, definitions)
    root = definitions.pop("Report")
    root["properties"]["schema"] = {"const": SCHEMA}
    root["properties"]["version"] = {"const": VERSION}
    root["required"] = [*root["required"], "schema", "version"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Report of lmi bench",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}
            definitions[kind.__name__] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(each, definitions) for each in arguments]}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], definitions)}
    if origin is tuple:
        return _array(arguments, definitions)
    return {"type": _TYPES[kind]}


def _array(arguments: tuple[Any, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    if arguments[1:] == (...,):
        return {"type": "array", "items": _schema_of(arguments[0], definitions)}
    items = [_schema_of(each, definitions) for each in arguments]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def _object(kind: type[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    required = [
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    return {
        "type": "object",
        "properties": {field.name: _schema_of(hints[field.name], definitions) for field in fields},
        "required": required,
    }
