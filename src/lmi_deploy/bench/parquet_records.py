"""Requests as a Parquet file: `--records FILE.parquet`. One row group per load, one row per request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from lmi_deploy.bench.request_records import RequestRecord
from lmi_deploy.bench.request_records_file import SCHEMA, VERSION
from lmi_deploy.bench.whole_file import whole_file
from lmi_deploy.errors import NotInstalled

SUFFIX: Final = ".parquet"
_TYPES: Final = {
    "scheduled": "double",
    "sent": "double",
    "end": "double",
    "arrivals": "times",
    "error": "string",
    "detail": "string",
    "input_counted_by": "string",
    "truncated": "bool",
    "warmup": "bool",
}
"""All others are whole numbers, empty where they are unknown. Times are seconds of one monotonic clock."""


class ParquetRecords:
    """The file is whole after each load: a run that is killed keeps the loads before. NotInstalled without pyarrow."""

    def __init__(self, path: Path, report: str) -> None:
        if find_spec("pyarrow") is None:
            raise NotInstalled("pyarrow", instead=", or name a file that ends with .jsonl")
        # Not at the top: the library is of an extra, and larger than all of lmi.
        import pyarrow as arrow

        self._arrow, self._path = arrow, path.resolve()
        kinds: dict[str, Any] = {
            "double": arrow.float64(),
            "times": arrow.list_(arrow.float64()),
            "string": arrow.string(),
            "bool": arrow.bool_(),
        }
        columns = [("point", arrow.string())]
        columns += [
            (field.name, kinds.get(_TYPES.get(field.name, ""), arrow.int64()))
            for field in fields(RequestRecord)
        ]
        about = json.dumps({"schema": SCHEMA, "version": VERSION, "report": report})
        self._schema = arrow.schema(columns, metadata={"lmi": about})
        self._tables: list[Any] = []
        self._write()

    def add(self, point: str, records: Sequence[RequestRecord]) -> None:
        """OSError if it cannot be written; the file is that of the load before."""
        columns = {name: [getattr(one, name) for one in records] for name in self._schema.names[1:]}
        columns["point"] = [point] * len(records)
        self._tables.append(self._arrow.table(columns, schema=self._schema))
        self._write()

    def _write(self) -> None:
        from pyarrow import parquet

        with whole_file(self._path) as part, parquet.ParquetWriter(part, self._schema) as writer:
            for table in self._tables:
                writer.write_table(table)
