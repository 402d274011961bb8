"""Records as lmi wrote them before schema 2."""

from __future__ import annotations

import json
from typing import Any

from lmi_deploy.domain.dataclass_json import dump
from lmi_deploy.domain.record import Generation, Record


def schema_1_text(record: Record) -> str:
    coming = _generation(record.coming) if record.coming else None
    generations = [_generation(generation) for generation in record.generations]
    return json.dumps({"schema": 1, **dump(record), "generations": generations, "coming": coming}, indent=1)


def _generation(generation: Generation) -> dict[str, Any]:
    fields: dict[str, Any] = dump(generation)
    del fields["serving"]
    return {**fields, "summary": generation.serving.summary}
