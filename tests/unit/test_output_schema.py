"""The published schema of `--json`: complete, closed, and compatible with the versions that were released."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.output_schema.schema import OUTPUTS, output_schema
from tests.support.json_output import commands_of, line_errors, require_described
from tests.support.output_changes import OUTPUT_SCHEMA, losses

KEPT = sorted(Path(__file__).parents[1].glob(f"kept/*/{OUTPUT_SCHEMA}"))
DOWN = {"event": "result", "ok": True, "deployment": "a", "target": "local", "account": "", "region": ""}


def _commands(group: click.Group, context: click.Context, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Each command that takes --json."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if any(parameter.name == "as_json" for parameter in command.params):
            yield " ".join((*words, name))
        if isinstance(command, click.Group):
            inner = click.Context(command, info_name=name, parent=context)
            yield from _commands(command, inner, (*words, name))


def test_every_command_with_json_declares_its_output() -> None:
    commands = set(_commands(lmi, click.Context(lmi)))
    assert commands == set(OUTPUTS), "declare it in src/lmi_deploy/cli/output_schema/"


def test_schema_is_a_schema() -> None:
    schema = output_schema()
    Draft202012Validator.check_schema(schema)
    assert schema["version"]


def test_schema_of_each_command_is_a_part_of_the_whole() -> None:
    """So each is a schema: the whole is one, with these definitions."""
    whole = output_schema()
    for command in OUTPUTS:
        schema = output_schema(command)
        Draft202012Validator.check_schema({**schema, "$defs": {}})
        assert schema["version"] == whole["version"]
        assert {name: whole["$defs"].get(name) for name in schema["$defs"]} == schema["$defs"], command


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _objects(value)
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict) and "required" in schema:
        yield schema


def test_every_object_is_closed() -> None:
    objects = list(_objects(output_schema()))
    assert len(objects) > 100
    assert all(one["additionalProperties"] is False for one in objects)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ({**DOWN, "removed": 1, "remaining": []}, ""),
        ({**DOWN, "removed": 1, "new": 1}, "'new' was unexpected"),
        (DOWN, "'removed' is a required property"),
        ({**DOWN, "removed": "1"}, "removed: '1' is not of type 'integer'"),
        ({"event": "row", "deployment": "a", "error": ""}, "'outcome' is a required property"),
        ({"event": "notice", "text": "a"}, ""),
        ({"event": "notice", "text": "a", "deployment": "a"}, ""),
        ({"event": "surprise"}, "no line of the kind ('surprise', None) is declared"),
        ({"event": "result", "ok": False, "error": {"kind": "Bug"}}, "'exit_code' is a required property"),
    ],
)
def test_lines_of_a_command(line: dict[str, Any], error: str) -> None:
    errors = line_errors("down", line)
    assert (errors == ()) if not error else any(error in one for one in errors)


def test_undeclared_line_fails_the_test_that_printed_it() -> None:
    require_described(["down", "a", "--json"], json.dumps({**DOWN, "removed": 1, "remaining": []}))
    require_described(["down", "a"], "a: not found here")
    with pytest.raises(AssertionError, match="`lmi down --json` printed a line"):
        require_described(["down", "a", "--json"], json.dumps(DOWN))


@pytest.mark.parametrize(
    ("argv", "commands"),
    [
        (["weights", "push", "a.yaml", "--json"], ["weights push"]),
        (["catalog", "--json"], ["catalog"]),
        (["catalog", "refresh", "--json"], ["catalog refresh"]),
        (["bench", "a", "--json"], ["bench run", "bench experiment"]),
        (["bench", "report", "a.json", "--json"], ["bench report"]),
        (["--version", "--json"], [None]),
    ],
)
def test_command_of_a_command_line(argv: list[str], commands: list[str | None]) -> None:
    assert list(commands_of(argv)) == commands


def test_action_of_a_plan_has_exactly_its_own_fields() -> None:
    action = {"action": "delete-model", "key": "DeleteModel:a", "title": "delete the model a", "model": "a"}
    plan = {"event": "plan", "deployment": "a", "changes": [], "figures": {}}
    assert line_errors("down", {**plan, "actions": [action]}) == ()
    assert line_errors("down", {**plan, "actions": [{**action, "endpoint": "a"}]})


def test_losses_of_a_new_schema() -> None:
    old = output_schema()
    new = deepcopy(old)
    assert losses(old, new) == []
    down, ls, plan = (new["$defs"][name] for name in ("DownResult", "ListedDeploymentRow", "PlanEvent"))
    down["properties"]["new"] = {"type": "string"}
    down["required"].append("new")
    new["$defs"]["NewRow"] = down
    new["anyOf"].append({"$ref": "#/$defs/NewRow"})
    assert losses(old, new) == []
    del down["properties"]["removed"]
    ls["properties"]["account"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    ls["properties"]["address"] = {"type": "string"}
    plan["required"].remove("figures")
    plan["properties"]["changes"] = {"type": "array", "items": {"type": "string"}}
    new["anyOf"].remove({"$ref": "#/$defs/CostResult"})
    assert set(losses(old, new)) == {
        "DownResult.removed: gone",
        "ListedDeploymentRow.account: may be something else now",
        "PlanEvent.figures: may be absent now",
        "Change: another type",
        "CostResult is gone",
    }


def test_released_versions_can_be_read() -> None:
    """`tools.keep_state` keeps the schema of each release."""
    for path in KEPT:
        kept, current = json.loads(path.read_text()), output_schema()
        if kept["version"].partition(".")[0] == current["version"].partition(".")[0]:
            assert losses(kept, current) == [], f"{path}: VERSION needs a new major version"
