"""A plan as people read it."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.number_text import counted, size_text
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.ui.colour import Paint
from lmi_deploy.ui.plain_text import plain

_BYTE_FIGURES = frozenset({"weights", "to fetch", "to move", "device memory"})
_SHOWN_WHEN_NEW = ("model", "commit", "engine", "runtime", "address")
_WIDE = 110


def plan_lines(plan: Plan, estimate: Estimate, paint: Paint) -> Iterator[str]:
    """Its actions, the changes, and the costs to know before the user agrees."""
    if plan.empty:
        yield f"{plan.deployment}: nothing to do, it matches the recipe"
        if cost := estimate.figure("cost"):
            yield f"  {paint('cost', 'bold')}: {cost}"
        return
    yield f"{plan.deployment}: {counted(len(plan.actions), 'action')}"
    for action in plan.actions:
        sign = paint("-", "red") if action.removes else paint("+", "green")
        yield f"  {sign} {action.title}"
    # Of a first deployment what it creates, in one line; details are in `--json`.
    new = {change.field: change.after for change in plan.changes}
    created = [f"{field}: {new[field]}" for field in _SHOWN_WHEN_NEW if field in new]
    if created and not any(change.before for change in plan.changes):
        yield f"  {', '.join(created)}"
    else:
        for change in plan.changes:
            yield f"  {paint('~', 'yellow')} {plain(change.field)}: {_value(change.before)} -> {_value(change.after)}"
    figures = [f"{name}: {value}" for name, value in figure_texts(estimate)]
    if figures:
        one = ", ".join(figures)
        yield from (f"  {line}" for line in ([one] if len(one) <= _WIDE else figures))


def figure_texts(estimate: Estimate) -> list[tuple[str, str]]:
    """Its figures, sizes in units that people read."""
    return [
        (name, size_text(float(value)) if name in _BYTE_FIGURES and value.isdigit() else value)
        for name, value in estimate.figures
    ]


def _value(text: str) -> str:
    return plain(text) or "(none)"
