"""The arguments of one SGLang's server, from its own definitions.

Up to 0.5.13 they are `add_argument` calls in `ServerArgs.add_cli_args`; later most of them are annotations
`A[type, Arg(...)]` of the fields of `ServerArgs`, and since 0.5.20 of the classes in `arg_groups/fields`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tools.argument_tables import Rule
from tools.vllm_arguments import rule_of
from tools.vllm_sources import Sources

_SERVER: Final = "sglang.srt.server_args"
_FIELDS: Final = "sglang.srt.arg_groups.fields"
_KINDS: Final = {"int": "int", "float": "float", "json.loads": "json"}
_RANGES: Final[dict[str, Rule]] = {"mem_fraction_static": {"gt": 0, "lt": 1}}
"""SGLang declares no ranges; this one is a share of the GPU's memory by its definition (arg_groups/memory_hook.py)."""
_VALUE_ACTIONS: Final = ("DeprecatedAliasStoreAction", "store")
"""Actions that store one value; the others store a constant, or read several values of their own."""


def sglang_arguments(sources: Sources) -> dict[str, Rule]:
    """By name, as an option of a recipe spells it: `mem_fraction_static`."""
    found: dict[str, Rule] = {}
    for module in (_SERVER, *sorted(sources.names(_FIELDS))):
        for node in sources.classes(module):
            if module != _SERVER or node.name == "ServerArgs":
                found |= dict(_annotated(sources, module, node))
    for call in _calls(sources):
        keywords = {word.arg: word.value for word in call.keywords if word.arg}
        flags = [flag.value for flag in call.args if isinstance(flag, ast.Constant)]
        found |= dict.fromkeys(map(_name, flags), _of_call(sources, keywords))
    return {name: rule | _RANGES.get(name, {}) for name, rule in found.items()}


def _name(flag: object) -> str:
    return str(flag).lstrip("-").replace("-", "_")


def _annotated(sources: Sources, module: str, node: ast.ClassDef) -> Iterator[tuple[str, Rule]]:
    """`load_format: A[str, Arg(choices=..., aliases=[...])] = "auto"`; a field without `A` is no argument."""
    for statement in node.body:
        match statement:
            case ast.AnnAssign(
                target=ast.Name(id=field),
                annotation=ast.Subscript(
                    value=ast.Name(id="A" | "Annotated"), slice=ast.Tuple(elts=[hint, *marks])
                ),
            ):
                keywords = {
                    word.arg: word.value
                    for mark in marks
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "Arg"
                    for word in mark.keywords
                    if word.arg
                }
                if "no_cli" in keywords:
                    continue
                rule = _of_field(sources, module, hint, keywords)
                flags = sources.words(module, keywords.get("cli_name")) or (field,)
                for flag in (*flags, *sources.words(module, keywords.get("aliases"))):
                    yield _name(flag), rule
            case _:
                pass


def _of_field(sources: Sources, module: str, hint: ast.expr, keywords: dict[str, ast.expr]) -> Rule:
    """As SGLang's `add_cli_args_from_dataclass` makes an argument of a field."""
    if "action" in keywords:
        return _of_action(keywords)
    if words := _choices(sources, module, keywords):
        return {"kind": "choice", "values": words}
    if "type_parser" in keywords:
        return {"kind": _KINDS.get(ast.unparse(keywords["type_parser"]), "text")}
    alternatives = sources.hints(module, hint) - {("none",)}
    if len(alternatives) != 1 or {one[0] for one in alternatives} & {"dict", "json", "other", "enum"}:
        return {"kind": "text"}
    return rule_of(alternatives)


def _of_call(sources: Sources, keywords: dict[str, ast.expr]) -> Rule:
    if "action" in keywords and not _stores_value(keywords["action"]):
        return _of_action(keywords)
    if words := _choices(sources, _SERVER, keywords):
        return {"kind": "choice", "values": words}
    if "nargs" in keywords:
        return {"kind": "list"}
    return {"kind": _KINDS.get(ast.unparse(keywords["type"]), "text") if "type" in keywords else "text"}


def _of_action(keywords: dict[str, ast.expr]) -> Rule:
    """A switch; an action that reads several values is not checked."""
    several = "nargs" in keywords or "action_kwargs" in keywords or "Path" in ast.unparse(keywords["action"])
    return {"kind": "text" if several else "flag"}


def _stores_value(action: ast.expr) -> bool:
    text = str(action.value) if isinstance(action, ast.Constant) else ast.unparse(action)
    return text in _VALUE_ACTIONS


def _choices(sources: Sources, module: str, keywords: dict[str, ast.expr]) -> list[str]:
    """Empty: any word, or words that are known only while the server runs."""
    match keywords.get("choices"):
        case ast.Name() | ast.List() | ast.Set() | ast.Tuple() as node:
            return list(dict.fromkeys(sources.words(module, node)))
        case _:
            return []


def _calls(sources: Sources) -> Iterator[ast.Call]:
    for top in sources.module(_SERVER):
        for function in ast.walk(top):
            if isinstance(function, ast.FunctionDef) and function.name == "add_cli_args":
                for node in ast.walk(function):
                    match node:
                        case ast.Call(func=ast.Attribute(attr="add_argument")):
                            yield node
                        case _:
                            pass
