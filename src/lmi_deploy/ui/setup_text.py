"""The findings of `lmi doctor` for people."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

from lmi_deploy.domain.number_text import counted
from lmi_deploy.errors.url_redaction import mask_urls
from lmi_deploy.ui.colour import Colour, Paint
from lmi_deploy.ui.plain_text import plain

if TYPE_CHECKING:
    from lmi_deploy.domain.setup_findings import ExaminedCheck, FindingState

_COLOURS: Final[Mapping[str, Colour]] = {
    "ok": "green",
    "warning": "yellow",
    "broken": "red",
    "not-checked": "dim",
}
_STATE: Final = max(map(len, _COLOURS)) + 2
_WIDEST: Final = 110


def setup_lines(checks: Sequence[ExaminedCheck], paint: Paint | None = None, width: int = 0) -> Iterator[str]:
    """Area by area; each finding begins with its state in words."""
    paint = paint or Paint(sys.stdout)
    width = width or min(get_terminal_size().columns, _WIDEST)
    name = max(len(check.name) for check in checks) + 2
    area = ""
    for check in checks:
        if check.area != area:
            area = check.area
            yield paint(area, "bold")
        for finding in check.findings:
            lead = " " * (2 + _STATE + name)
            first, *rest = _wrapped(finding.text, width - len(lead))
            state = paint(finding.state, _COLOURS[finding.state]) + " " * (_STATE - len(finding.state))
            yield f"  {state}{check.name:<{name}}{first}"
            yield from (lead + line for line in rest)
            if finding.remedy:
                prose, _, command = finding.remedy.partition("\n")
                yield from (lead + line for line in _wrapped(f"next: {prose}", width - len(lead)))
                # As it is: users copy it.
                yield from (f"    {plain(mask_urls(line))}" for line in command.splitlines() if line.strip())
    yield summary(checks)


def summary(checks: Sequence[ExaminedCheck]) -> str:
    """`1 broken, 2 warnings, 9 ok`."""
    count = state_counts(checks)
    parts = [
        f"{count['broken']} broken" if count["broken"] else "",
        counted(count["warning"], "warning") if count["warning"] else "",
        f"{count['ok']} ok",
        f"{count['not-checked']} not checked" if count["not-checked"] else "",
    ]
    return ", ".join(filter(None, parts))


def state_counts(checks: Sequence[ExaminedCheck]) -> dict[FindingState, int]:
    states = [finding.state for check in checks for finding in check.findings]
    return {state: states.count(state) for state in ("ok", "warning", "broken", "not-checked")}


def setup_rows(checks: Sequence[ExaminedCheck]) -> list[dict[str, Any]]:
    """For a program: one row a finding."""
    return [
        {
            "area": check.area,
            "check": check.name,
            "state": finding.state,
            "text": mask_urls(finding.text),
            "remedy": mask_urls(finding.remedy),
        }
        for check in checks
        for finding in check.findings
    ]


def _wrapped(text: str, width: int) -> list[str]:
    """Words stay whole: users copy commands and names."""
    lines = textwrap.wrap(
        plain(mask_urls(text)), max(width, 24), break_long_words=False, break_on_hyphens=False
    )
    return lines or [""]
