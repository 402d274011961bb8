"""What `lmi doctor` finds: the findings of one check, with their remedies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FindingState = Literal["ok", "warning", "broken", "not-checked"]


@dataclass(frozen=True, slots=True)
class SetupFinding:
    """`remedy` is what to do; empty if there is nothing to do. `missing`: checks that use the thing cannot run."""

    state: FindingState
    text: str
    remedy: str = ""
    missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedCheck:
    area: str
    name: str
    findings: tuple[SetupFinding, ...]

    @property
    def passed(self) -> bool:
        """Whether checks that need this one can run."""
        return all(each.state in ("ok", "warning") and not each.missing for each in self.findings)


def absent(text: str, remedy: str, *, required: bool) -> SetupFinding:
    """Something that is not there: broken if the recipe needs it, else a warning."""
    return SetupFinding("broken" if required else "warning", text, remedy, missing=True)
