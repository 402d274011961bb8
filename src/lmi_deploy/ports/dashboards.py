"""CloudWatch's dashboards, one for a deployment."""

from __future__ import annotations

from typing import Protocol


class Dashboards(Protocol):
    def write(self, name: str, body: str, *, marker: str) -> None:
        """Create or replace it. Refused if one of this name exists whose body lacks the marker: it is not ours."""

    def remove(self, name: str, *, marker: str) -> None:
        """One that is absent or not ours stays as it is."""
