"""One cause of a failure, as commands show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Confidence = Literal["high", "medium", "low"]
UNKNOWN_CAUSE: Final = "This failure is not in the catalog; this line is the first cause."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause. `more` is the command that explains a known failure, `source` the place in the vendor's source."""

    id: str
    cause: str
    evidence: str
    line: int
    """0 if the evidence is a fact, not a log line."""
    remedy: str
    settings: tuple[str, ...]
    confidence: Confidence
    source: str
    more: str = ""
    wrapper: bool = False
    """It only says that something failed; the cause is in another log."""

    @property
    def explained(self) -> bool:
        return not self.wrapper and UNKNOWN_CAUSE not in self.cause


def as_fields(cause: Cause) -> Mapping[str, object]:
    """For a program."""
    return {
        "cause": cause.cause,
        "evidence": cause.evidence,
        "line": cause.line,
        "remedy": cause.remedy,
        "settings": list(cause.settings),
        "confidence": cause.confidence,
        "source": cause.source,
    }
