"""Holds the lines of `--json` to the published JSON Schema of their command."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from lmi_deploy.cli.output_schema.schema import OUTPUTS, output_schema

Line = dict[str, Any]


def require_described(argv: Sequence[str], out: str) -> None:
    """AssertionError, with what is wrong in the nearest declaration, of a line that the schema of the command does not
    allow. Nothing to check without --json.
    """
    if "--json" not in argv:
        return
    commands = [*commands_of(argv)]
    for text in out.splitlines():
        line = json.loads(text)
        assert any(not line_errors(command, line) for command in commands), _message(commands[0], line)


def commands_of(argv: Sequence[str]) -> Iterator[str | None]:
    """The one whose output this is; two for `bench NAME`, and None for a command line without a command."""
    words = [word for word in argv if not word.startswith("-")]
    if argv and argv[0] == "bench" and " ".join(words[:2]) not in OUTPUTS:
        yield from ("bench run", "bench experiment")
        return
    yield next((name for n in (2, 1) if (name := " ".join(words[:n])) in OUTPUTS), None)


def line_errors(command: str | None, line: Line) -> tuple[str, ...]:
    """Empty if one of the declared lines of this kind fits; else those of the nearest."""
    found = [
        tuple(
            f"{'.'.join(map(str, error.absolute_path)) or 'the line'}: {error.message}"
            for error in validator.iter_errors(line)
        )
        for validator in _validators(command).get(_kind(line), ())
    ]
    return min(found, key=len) if found else (f"no line of the kind {_kind(line)} is declared",)


@functools.cache
def _validators(command: str | None) -> dict[tuple[Any, Any], list[Draft202012Validator]]:
    """By the event, and whether it is a success: a line is compared with those of its kind only."""
    schema = output_schema(command)
    found: dict[tuple[Any, Any], list[Draft202012Validator]] = {}
    for reference in schema["anyOf"]:
        line = schema["$defs"][reference["$ref"].rpartition("/")[2]]
        heads = {name: value.get("const") for name, value in line["properties"].items()}
        validator = Draft202012Validator({**line, "$defs": schema["$defs"]})
        found.setdefault(_kind(heads), []).append(validator)
    return found


def _kind(line: Line) -> tuple[Any, Any]:
    return line.get("event"), line.get("ok") if line.get("event") == "result" else None


def _message(command: str | None, line: Line) -> str:
    wrong = "\n  ".join(line_errors(command, line))
    return (
        f"`lmi {command or 'COMMAND'} --json` printed a line that cli/output_schema does not declare:\n  {wrong}\n"
        f"{json.dumps(line)[:2000]}"
    )
