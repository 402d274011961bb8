"""docs/reference/aws-requests.md as a table: each request, the actions it requires, and the statements that
grant them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "aws-requests.md"
_ACTION = re.compile(r"`([a-z0-9-]+:[A-Za-z]+)`")


LOG = "LMI_AWS_REQUESTS"


@dataclass(frozen=True, slots=True)
class Row:
    request: str
    """As LMI_AWS_REQUESTS records it: the service and the operation. What AWS does by itself is described in
    words."""
    demanded: tuple[str, ...]
    granted_by: tuple[str, ...]
    source: str


def rows() -> Iterator[Row]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 5 and cells[0] not in ("Request", "Service", "---"):
            request, demanded, granted, source, _ = cells
            yield Row(
                request=request.partition(",")[0],
                demanded=tuple(_ACTION.findall(demanded)),
                granted_by=tuple(name for name in granted.split(", ") if name),
                source=source,
            )


def listed() -> set[str]:
    return {row.request for row in rows()}


def recorded() -> set[str]:
    """The requests of this process since the log was named in the environment."""
    return set(Path(os.environ[LOG]).read_text(encoding="utf-8").splitlines())
