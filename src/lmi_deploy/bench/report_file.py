"""The JSON file of a report, its JSON Schema, and reading it back."""

from __future__ import annotations

import json
from typing import Any

from lmi_deploy.bench.report import SCHEMA, VERSION, Report
from lmi_deploy.domain import dataclass_json
from lmi_deploy.domain.type_schema import DIALECT, TypeSchemas
from lmi_deploy.errors import UsageRefused


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
    schemas = TypeSchemas(closed=False)
    root = schemas.fields(Report)
    root["properties"]["schema"] = {"const": SCHEMA}
    root["properties"]["version"] = {"const": VERSION}
    root["required"] = [*root["required"], "schema", "version"]
    return {
        "$schema": DIALECT,
        "title": "Report of lmi bench",
        **root,
        "$defs": dict(sorted(schemas.definitions.items())),
    }
