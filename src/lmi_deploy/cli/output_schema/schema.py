"""The JSON Schema of `--json`: of every line of a command, and of all commands together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from lmi_deploy.cli.output_schema import VERSION, deployments, facts, recipes, requests
from lmi_deploy.cli.output_schema.command_output import CommandOutput, Line, Merged
from lmi_deploy.cli.output_schema.events import (
    FAILURE,
    SUCCESS,
    ActionFields,
    FailedResult,
    OfSeveral,
    PieceFields,
    PlanFields,
    VersionResult,
)
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.type_schema import DIALECT, Schema, TypeSchemas, description_of
from lmi_deploy.ui.json_view import kebab

OUTPUTS: Final[Mapping[str, CommandOutput]] = {
    **deployments.OUTPUTS,
    **requests.OUTPUTS,
    **recipes.OUTPUTS,
    **facts.OUTPUTS,
}
"""By the words after `lmi`."""


def output_schema(command: str | None = None) -> Schema:
    """Of a line that `command` prints; of a line of any command, if it is None."""
    lines = _Lines()
    shared = lines.shared()
    if command is None:
        own = [line for output in OUTPUTS.values() for line in lines.of(output)]
        own.append(lines.add(SUCCESS, VersionResult))
    else:
        own = lines.of(OUTPUTS[command])
    return {
        "$schema": DIALECT,
        "title": f"A line that `lmi {command or 'COMMAND'} --json` prints",
        "version": VERSION,
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in dict.fromkeys([*shared, *own])],
        "$defs": dict(sorted(lines.definitions.items())),
    }


class _Lines:
    """The definitions of lines, each an object with `event`, and those of the classes in them."""

    def __init__(self) -> None:
        self._schemas = TypeSchemas(closed=True)
        self._schemas.definitions[ActionFields.__name__] = self._actions()
        self.definitions = self._schemas.definitions

    def shared(self) -> list[str]:
        """The names of the lines that every command may print."""
        events = [self.add(_event(kebab(kind.__name__)), kind, OfSeveral) for kind in get_args(Event)]
        plan = self.add(_event("plan"), PlanFields)
        return [*events, plan, self.add(_event("piece"), PieceFields), self.add(FAILURE, FailedResult)]

    def of(self, output: CommandOutput) -> list[str]:
        """The names of a command's own lines."""
        return [
            *(self._line(_event(name), line) for name, line in output.events),
            *(self._line(_event("row"), row) for row in output.rows),
            *(self._line(SUCCESS, result) for result in output.results),
        ]

    def _line(self, head: Mapping[str, Schema], line: Line) -> str:
        return (
            self.add(head, *line.kinds, name=line.name) if isinstance(line, Merged) else self.add(head, line)
        )

    def add(self, head: Mapping[str, Schema], *kinds: type, name: str = "") -> str:
        name = _line_name(name or kinds[0].__name__, head["event"]["const"])
        fields = self._schemas.fields(*kinds)
        self.definitions[name] = {
            **description_of(kinds[0]),
            **fields,
            "properties": {**head, **fields["properties"]},
            "required": [*head, *fields["required"]],
        }
        return name

    def _actions(self) -> Schema:
        """Each action of a plan: its kind, and the fields of its class."""
        return {"anyOf": [self._action(kind) for kind in get_args(Action)]}

    def _action(self, kind: Any) -> Schema:
        fields = self._schemas.fields(ActionFields, kind)
        fields["properties"]["action"] = {"const": kebab(kind.kind)}
        name = f"{kind.__name__}Action"
        self._schemas.definitions[name] = {**description_of(kind), **fields}
        return {"$ref": f"#/$defs/{name}"}


def _line_name(name: str, event: str) -> str:
    """Its class with the kind of line: UpResult, UsageRow, StartedEvent."""
    suffix = event.capitalize() if event in ("row", "result") else "Event"
    return name if name.endswith(suffix) else f"{name.removesuffix('Fields')}{suffix}"


def _event(name: str) -> dict[str, Schema]:
    return {"event": {"const": name}}
