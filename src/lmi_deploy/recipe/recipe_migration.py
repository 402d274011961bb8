"""Rewrite a recipe for another version of the server: only what changes, so that comments and order stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from lmi_deploy.catalog.server_version import engine_image, server_version
from lmi_deploy.domain.recipe_keys import DEFAULT_ENGINE
from lmi_deploy.errors import RecipeError, UsageRefused
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.option_migration import Move, moves
from lmi_deploy.recipe.parse import parse
from lmi_deploy.recipe.reader import Purpose

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_ANY_REGION = "us-east-1"
"""The list of all published images."""
_ROLLING_HANDLER = "djl_python.huggingface"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeEdit:
    """One place of the file; `became` is empty if the key is commented out."""

    line: int
    key: str
    was: str
    became: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """`problems` are mistakes that the recipe did not have before: it is not to be written then."""

    text: str
    changes: tuple[RecipeEdit, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edit:
    """Characters `start` to `end` become `text`."""

    start: int
    end: int
    text: str
    change: RecipeEdit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    key: yaml.ScalarNode
    value: yaml.Node
    in_braces: bool


def migrate(text: str, origin: str, version: str, purpose: Purpose) -> Migration:
    """RecipeError for text that is not a YAML mapping, UsageRefused for one that names no version of the server,
    Unresolvable for a version whose images do not contain the recipe's engine.
    """
    root = _root(text, origin, purpose)
    target = _table_version(version)
    engine_image(_engine(root), version, _ANY_REGION)
    if "image" in _entries(_entries(root).get("container")):
        raise UsageRefused(
            f"{origin}: container.image names your own image, and --to works only with AWS's images",
            hint="change container.image by hand",
        )
    edits = list(_edits(text, root, version, target, _engine(root), is_base=True))
    for overlay in _entries(_entries(root).get("overlays")).values():
        if isinstance(overlay.value, yaml.MappingNode):
            engine = _engine(overlay.value) if "engine" in _entries(overlay.value) else _engine(root)
            edits += _edits(text, overlay.value, version, target, engine, is_base=False)
    migrated = text
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):
        migrated = migrated[: edit.start] + edit.text + migrated[edit.end :]
    changes = tuple(edit.change for edit in sorted(edits, key=lambda one: one.start))
    known = {(problem.key, problem.what) for problem in _problems(text, origin, purpose)}
    new = (
        problem
        for problem in _problems(migrated, origin, purpose)
        if (problem.key, problem.what) not in known
    )
    return Migration(text=migrated, changes=changes, problems=tuple(new))


def _root(text: str, origin: str, purpose: Purpose) -> yaml.MappingNode:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        root = None
    if not isinstance(root, yaml.MappingNode):
        parse(text, origin, purpose=purpose)  # names the mistake
        raise UsageRefused(f"{origin}: is not a recipe", hint="run `lmi validate` for the reason")
    return root


def _problems(text: str, origin: str, purpose: Purpose) -> tuple[Problem, ...]:
    try:
        parse(text, origin, purpose=purpose)
    except RecipeError as error:
        return tuple(error.problems)
    return ()


def _table_version(version: str) -> str:
    number, image = server_version(version, None)
    if not number:
        raise UsageRefused(
            f"--to {version}: is not a version of the server",
            hint="write for example 0.36.0, or 0.36.0-lmi27",
        )
    return f"{number}/lmi{image}" if image else number


def _edits(
    text: str, table: yaml.MappingNode, version: str, target: str, engine: str, *, is_base: bool
) -> Iterator[_Edit]:
    yield from _version(text, table, version, is_base=is_base)
    given = {
        name: entry
        for name, entry in _entries(_entries(table).get("options")).items()
        if isinstance(entry.value, yaml.ScalarNode)
    }
    builtin = _scalar(_entries(_entries(table).get("handler")).get("builtin"))
    pairs = [(name, str(entry.value.value)) for name, entry in given.items()]
    found = moves(engine, pairs, target, keeps_rolling_batch=builtin == _ROLLING_HANDLER)
    for move in found:
        yield _rewritten(text, given[move.name], move)
    holder = _entries(table).get("options")
    lines_are_gone = bool(found) and all(move.became is None for move in found)
    if holder and lines_are_gone and len(found) == len(_entries(holder)) and not _in_braces(holder.value):
        yield _edit(text, holder.key, " {}", holder, "no option remains")


def _version(text: str, table: yaml.MappingNode, version: str, *, is_base: bool) -> Iterator[_Edit]:
    container = _entries(table).get("container")
    existing = _entries(container).get("version")
    if existing is not None:
        was = str(existing.value.value)
        if was != version:
            start, end = existing.value.start_mark.index, existing.value.end_mark.index
            change = RecipeEdit(
                line=_line(existing.key), key="container.version", was=was, became=version, why=""
            )
            yield _Edit(start=start, end=end, text=version, change=change)
    elif is_base:
        yield _new_version(text, table, container, version)


def _new_version(text: str, table: yaml.MappingNode, container: _Entry | None, version: str) -> _Edit:
    """`container.version` where there was none: beside the container's other keys, else below the last line."""
    change = RecipeEdit(
        line=0, key="container.version", was="", became=version, why="the recipe had no version"
    )
    if container is not None and isinstance(container.value, yaml.MappingNode):
        start = container.value.start_mark.index + _in_braces(container.value)
        indent = " " * container.value.start_mark.column
        new = f"version: {version}, " if _in_braces(container.value) else f"version: {version}\n{indent}"
        return _Edit(start=start, end=start, text=new, change=change)
    if _in_braces(table):
        start = table.start_mark.index + 1
        return _Edit(start=start, end=start, text=f"container: {{version: {version}}}, ", change=change)
    new = f"container: {{version: {version}}}\n"
    return _Edit(
        start=len(text), end=len(text), text=new if text.endswith("\n") else f"\n{new}", change=change
    )


def _rewritten(text: str, entry: _Entry, move: Move) -> _Edit:
    change = RecipeEdit(
        line=_line(entry.key),
        key=f"options.{move.name}",
        was=move.value,
        became=": ".join(move.became) if move.became else "",
        why=move.why,
    )
    start, end = entry.key.start_mark.index, _end(text, entry)
    if move.became is not None:
        name, value = move.became
        return _Edit(start=start, end=end, text=f"{name}: {_quoted(value)}", change=change)
    if entry.in_braces:
        after = re.compile(r"\s*,\s*").match(text, end)
        before = re.search(r",\s*$", text[:start])
        if after:
            return _Edit(start=start, end=after.end(), text="", change=change)
        return _Edit(start=before.start() if before else start, end=end, text="", change=change)
    indent = " " * entry.key.start_mark.column
    lines = text[start:end].split("\n")
    kept = f"\n{indent}# ".join(line.removeprefix(indent) for line in lines)
    return _Edit(start=start, end=end, text=f"# {move.why}:\n{indent}# {kept}", change=change)


def _edit(text: str, key: yaml.ScalarNode, suffix: str, entry: _Entry, why: str) -> _Edit:
    """A value behind the colon of a key whose own lines are gone."""
    at = text.index(":", key.end_mark.index) + 1
    change = RecipeEdit(line=_line(entry.key), key=str(key.value), was="", became=suffix.strip(), why=why)
    return _Edit(start=at, end=at, text=suffix, change=change)


def _entries(holder: yaml.Node | _Entry | None) -> dict[str, _Entry]:
    node = holder.value if isinstance(holder, _Entry) else holder
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {
        str(key.value): _Entry(key=key, value=value, in_braces=_in_braces(node))
        for key, value in node.value
        if isinstance(key, yaml.ScalarNode)
    }


def _in_braces(node: yaml.Node) -> bool:
    return bool(getattr(node, "flow_style", False))


def _engine(table: yaml.MappingNode) -> str:
    return _scalar(_entries(table).get("engine")) or DEFAULT_ENGINE


def _scalar(entry: _Entry | None) -> str:
    return str(entry.value.value) if entry and isinstance(entry.value, yaml.ScalarNode) else ""


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _end(text: str, entry: _Entry) -> int:
    """Behind the value, without the lines that follow a block of text."""
    start, end = entry.value.start_mark.index, entry.value.end_mark.index
    return start + len(text[start:end].rstrip()) if end > start else end


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return f"'{value}'" if value.isprintable() and "'" not in value else json.dumps(value)
