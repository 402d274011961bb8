"""The tables of shell completion: commands with their options and arguments, keys of recipes, options of engines.

A key press must not import the commands themselves (300 ms), so what they declare is written down here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from lmi_deploy.catalog import sagemaker_limits
from lmi_deploy.catalog.doc_pages import doc_pages
from lmi_deploy.cli.command_group import COMMANDS, lmi
from lmi_deploy.planning.explain import recipe_keys
from lmi_deploy.recipe.model.field_types import KeyGroup
from lmi_deploy.recipe.option_descriptions import described_engines, engine_options

_BY_NAME = {
    "recipe": "recipe",
    "recipes": "recipe",
    "what": "recipe",
    "name": "name",
    "names": "name",
    "key": "key",
    "words": "page",
}
"""Arguments whose values are known by what they are called."""
_OTHERS = {("cache", "names"): "", ("weights", "name"): ""}
_OF_OPTIONS = {"--set": "set", "--region": "region", "--instance": "instance"}


def completion_table() -> str:
    """src/lmi_deploy/cli/completion.json, complete."""
    root = click.Context(lmi, info_name="lmi", **lmi.context_settings)
    commands = {name: _command(name, lmi.get_command(root, name), root) for name in COMMANDS}
    for name, entry in COMMANDS.items():
        commands[name]["help"] = entry.help
    table = {
        "commands": commands,
        "keys": dict(_keys()),
        "regions": list(sagemaker_limits.names("regions")),
        "instances": list(sagemaker_limits.names("instance_types")),
        "pages": [page.name for page in doc_pages()],
    }
    return _lines(table)


def completion_options() -> str:
    """src/lmi_deploy/cli/completion_options.json, complete: by engine the options and their words."""
    table = {
        engine: {option.name: list(option.choices) for option in engine_options(engine)}
        for engine in described_engines()
    }
    return _lines(table)


def _lines(table: Mapping[str, Any]) -> str:
    """One entry on a line: small, and two changes of it seldom conflict."""
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":"))
    return text.replace('},"', '},\n"').replace('],"', '],\n"') + "\n"


def _command(path: str, command: click.Command | None, parent: click.Context) -> dict[str, Any]:
    assert command is not None
    name = path.split()[-1]
    context = click.Context(command, info_name=name, parent=parent)
    found: dict[str, Any] = {"help": command.get_short_help_str(100)}
    if isinstance(command, click.Group):
        inner = {each: command.get_command(context, each) for each in command.list_commands(context)}
        found["commands"] = {
            each: _command(f"{path} {each}", made, context)
            for each, made in inner.items()
            if made is not None and not made.hidden
        }
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    found["options"] = {
        spelling: _option(option)
        for option in options
        if not option.hidden
        for spelling in (*option.opts, *option.secondary_opts)
    }
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    found["arguments"] = [_argument(path, argument) for argument in arguments]
    return found


def _option(option: click.Option) -> dict[str, Any]:
    help_text = (option.help or "").split("  [default")[0]
    found: dict[str, Any] = {"help": help_text}
    if not option.is_flag and not option.count:
        kind = next((_OF_OPTIONS[each] for each in option.opts if each in _OF_OPTIONS), "")
        found["takes"] = kind or _kind(option)
    if option.multiple:
        found["many"] = True
    return found


def _argument(path: str, argument: click.Argument) -> dict[str, Any]:
    name = argument.name or ""
    known = _OTHERS.get((path.split()[0], name), _BY_NAME.get(name, ""))
    return {"takes": known or _kind(argument), "many": argument.nargs == -1}


def _kind(param: click.Parameter) -> Any:
    """The words of a choice, else `file`, `dir` or nothing."""
    match param.type:
        case click.Choice():
            return list(param.type.choices)
        case click.Path():
            return "dir" if not param.type.file_okay else "file"
        case _:
            return ""


def _keys() -> Iterator[tuple[str, list[str]]]:
    for path, key in recipe_keys():
        if not isinstance(key.shape, KeyGroup):
            words = [*_words(key.shape.schema())]
            yield path, [_INSTANCES] if _instances() >= {*words} > {*_FEW} else words


_INSTANCES = "@instances"
_FEW = ("ml.g5.xlarge", "ml.m5.xlarge")


def _instances() -> set[str]:
    return {"auto", *sagemaker_limits.names("instance_types")}


def _words(schema: Mapping[str, Any]) -> Iterator[str]:
    """The enumeration of a value, whether it is one or a list."""
    if schema.get("type") == "boolean":
        yield from ("true", "false")
    yield from (str(word) for word in schema.get("enum", ()))
    for each in schema.get("anyOf", ()):
        if isinstance(each, dict) and each.get("type") != "array":
            yield from _words(each)
