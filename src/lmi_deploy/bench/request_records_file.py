"""Requests as JSON Lines, one per line: `records.jsonl` beside a report. The first line says what follows.

DuckDB, pandas and Polars read these lines as they are. Parquet (parquet_records.py) needs a library that is larger than
all of `lmi`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from typing import Any, Final

from lmi_deploy.bench.request_records import RequestRecord
from lmi_deploy.domain import dataclass_json
from lmi_deploy.errors import UsageRefused

SCHEMA: Final = "lmi-bench-records"
VERSION: Final = 1
_DEFAULTS: Final = {field.name: field.default for field in fields(RequestRecord)}


def head_line(report: str) -> str:
    """`report` is the name of the report that these requests belong to."""
    return json.dumps({"schema": SCHEMA, "version": VERSION, "report": report}) + "\n"


def record_lines(point: str, records: Iterable[RequestRecord]) -> Iterator[str]:
    """Times in seconds, to a tenth of a microsecond; fields that have their default are left out."""
    for record in records:
        line: dict[str, Any] = {"point": point}
        for name, value in asdict(record).items():
            if value != _DEFAULTS[name]:
                line[name] = _rounded(value)
        yield json.dumps(line, ensure_ascii=False) + "\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 7)
    return [round(each, 7) for each in value] if isinstance(value, tuple) else value


def read_records(lines: Iterable[str], where: str) -> dict[str, tuple[RequestRecord, ...]]:
    """By point. UsageRefused names the line that cannot be read; a last line that was cut off is left out, because a
    run that was killed wrote it.
    """
    found: dict[str, list[RequestRecord]] = {}
    for number, line in enumerate(lines, start=1):
        if number > 1 and not line.endswith("\n"):
            break
        try:
            value = json.loads(line)
            if number == 1:
                _require_schema(value, where)
                continue
            record = dataclass_json.load(RequestRecord, value)
            found.setdefault(str(value.get("point", "")), []).append(record)
        except (ValueError, AttributeError) as reason:
            raise UsageRefused(
                f"{where}, line {number}: {reason}", hint="name a records file of `lmi bench`"
            ) from None
    return {point: tuple(records) for point, records in found.items()}


def _require_schema(value: Any, where: str) -> None:
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise ValueError(f"it has no schema {SCHEMA}")
    if value.get("version") != VERSION:
        raise UsageRefused(
            f"{where}: records of schema version {value.get('version')}; this lmi reads version {VERSION}",
            hint="install the lmi that wrote them, or a newer one",
        )
