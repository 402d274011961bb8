"""`--json`: the same facts as JSON Lines on stdout, the last one the result; nothing on stderr."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO, get_args

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.events import Event, Line, Notice
from lmi_deploy.errors import LmiError, RecipeError
from lmi_deploy.errors.url_redaction import mask_urls
from lmi_deploy.ui.view import Fields

if TYPE_CHECKING:
    from lmi_deploy.domain.plan import Estimate, Plan


class MachineView:
    """A `View` for programs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, event: Event, deployment: str = "") -> None:
        fields = {**({"deployment": deployment} if deployment else {}), **dataclasses.asdict(event)}
        if isinstance(event, (Notice, Line)):
            fields["text"] = mask_urls(event.text)
        self._write(kebab(type(event).__name__), fields)

    def end(self, deployment: str) -> None:
        pass

    def plan(self, plan: Plan, estimate: Estimate) -> None:
        self._write("plan", plan_fields(plan, estimate))

    def note(self, text: str, *, copied: bool = False) -> None:
        self._write("notice", {"text": mask_urls(text.strip())})

    def rows(self, rows: Sequence[Fields], *, spare: Sequence[str] = ()) -> None:
        for row in rows:
            self._write("row", row)

    @property
    def width(self) -> int:
        return 0

    def words(self, lines: Iterable[str]) -> None:
        pass

    def refresh(self, fields: Fields, lines: Sequence[str], line: str) -> None:
        self._write("row", fields)

    def chunk(self, text: str) -> None:
        self._write("piece", {"text": text})

    def end_of_response(self) -> None:
        pass

    def result(self, fields: Fields, text: str = "") -> None:
        self._write("result", {"ok": True, **fields})

    def unshown_lines(self, lines: Sequence[str]) -> tuple[str, ...]:
        return tuple(lines)

    def fail(self, error: LmiError) -> None:
        problems = [dataclasses.asdict(p) for p in error.problems] if isinstance(error, RecipeError) else []
        response = {"message": error.message, "hint": error.hint, "details": list(error.details)}
        fields = {"kind": type(error).__name__, "exit_code": error.exit_code, **response}
        self._write("result", {"ok": False, "error": fields, **({"problems": problems} if problems else {})})

    def close(self) -> None:
        self._out.flush()

    def _write(self, event: str, fields: Fields) -> None:
        self._out.write(json.dumps({"event": event, **fields}, ensure_ascii=False) + "\n")
        self._out.flush()


def parse_event(fields: Fields) -> Event | None:
    """The event of a line that `show` wrote; None for a line of another kind."""
    kind = _KINDS.get(fields.get("event", ""))
    if kind is None:
        return None
    values = {field.name: fields[field.name] for field in dataclasses.fields(kind)}
    if "phase" in values:
        values["phase"] = Phase(values["phase"])
    event: Event = kind(**values)
    return event


def kebab(name: str) -> str:
    """`FetchWeights` as `fetch-weights`."""
    return re.sub(r"(?<=.)(?=[A-Z])", "-", name).lower()


_KINDS: Final = {kebab(kind.__name__): kind for kind in get_args(Event)}


def plan_fields(plan: Plan, estimate: Estimate) -> dict[str, Any]:
    """A plan as data: each action with its kind and its names."""
    from lmi_deploy.domain.environment_digests import action_fields

    actions = [
        {"action": kebab(a.kind), "key": a.key, "title": a.title, **action_fields(a)} for a in plan.actions
    ]
    changes = [dataclasses.asdict(change) for change in plan.changes]
    figures = {name.replace(" ", "_"): value for name, value in estimate.figures}
    return {"deployment": plan.deployment, "actions": actions, "changes": changes, "figures": figures}
