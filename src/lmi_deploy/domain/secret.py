"""A value that can be passed and used, but not shown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Secret:
    """Shown as `<secret>` however it is printed; `.value` is the only way to read it."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "<secret>"

    def __format__(self, spec: str) -> str:
        return "<secret>"
