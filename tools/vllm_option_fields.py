"""The fields of vLLM's JSON options (`speculative_config`, `compilation_config`, ...), from its own config classes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from tools.vllm_arguments import Rule, field_bounds, rule_of
from tools.vllm_sources import ARGUMENTS, Hint, Named, Sources

_OWNERS: Final = ("EngineArgs", "VllmConfig", "ModelConfig", "ParallelConfig")
_NUMBERS: Final = ("int", "float")
_CONNECTORS: Final = "vllm.distributed.kv_transfer.kv_connector.factory"
_NOT_TAKEN: Final = (
    *("target_model_config", "target_parallel_config", "draft_model_config", "draft_parallel_config"),
    "tensor_parallel_size",
)
"""Fields that vLLM fills itself, and one that it has only to refuse it (config/speculative.py)."""


def fields(sources: Sources, options: Iterable[str]) -> dict[str, Rule]:
    """By `option.field`, and `option.field.field` where a field is a table of its own."""
    found: dict[str, Rule] = {}
    for option in options:
        config = _config_of(sources, option)
        if config is not None:
            found.update(_rules(sources, option, config))
    name = "kv_transfer_config.kv_connector"
    if name in found and (connectors := _connectors(sources)):
        found[name] = {"kind": "choice", "values": connectors}
    return found


def _rules(sources: Sources, path: str, config: Named) -> Iterator[tuple[str, Rule]]:
    for owner, statement in _declared(sources, config):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=hint, value=value) if _is_read(
                name, hint, value
            ):
                inner = _class_in(sources, owner.module, hint)
                if inner is not None:
                    yield from _rules(sources, f"{path}.{name}", inner)
                folded = name in _rewritten(config)
                yield (
                    f"{path}.{name}",
                    {"kind": "json"}
                    if inner
                    else _rule(sources.hints(owner.module, hint), value, folded=folded),
                )
            case _:
                pass


def _connectors(sources: Sources) -> list[str]:
    """The names that are registered with vLLM's factory of KV connectors."""
    return [
        str(node.args[0].value)
        for top in sources.module(_CONNECTORS)
        for node in ast.walk(top)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("register_connector")
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ]


def _rule(hints: frozenset[Hint], value: ast.expr | None, *, folded: bool) -> Rule:
    """`text` means text here, and `any` what is unknown."""
    by_kind = {hint[0]: hint for hint in hints if hint[0] != "none"}
    kinds = {"number" if kind in _NUMBERS else kind for kind in by_kind}
    if len(kinds) != 1 and kinds != {"literal", "str"}:
        return {"kind": "any"}
    if kinds == {"enum"}:
        return _member(by_kind["enum"][1], folded=folded)
    rule = {"kind": "json"} if kinds <= {"dict", "json"} else rule_of(hints)
    if kinds == {"number"}:
        return {"kind": "float" if "float" in by_kind else "int", **field_bounds(value)}
    if rule["kind"] == "choice" and folded:
        return {**rule, "kind": "name"}
    return {"kind": "any"} if kinds == {"other"} else rule


def _member(members: tuple[tuple[str, str], ...], *, folded: bool) -> Rule:
    """A validator takes an Enum's names in any case; without one its values are taken."""
    if folded:
        return {"kind": "name", "values": [name for name, _ in members]}
    values = [value for _, value in members]
    return (
        {"kind": "choice", "values": values} if all(one.isidentifier() for one in values) else {"kind": "any"}
    )


def _config_of(sources: Sources, option: str) -> Named | None:
    """The class that an option of this name is read into."""
    modules = [ARGUMENTS, *sorted(sources.names("vllm.config"))]
    for owner in _OWNERS:
        for module in modules:
            for node in sources.classes(module):
                if node.name != owner:
                    continue
                for statement in node.body:
                    match statement:
                        case ast.AnnAssign(target=ast.Name(id=name), annotation=hint) if name == option:
                            if found := _class_in(sources, module, hint):
                                return found
                        case _:
                            pass
    return None


def _class_in(sources: Sources, module: str, hint: ast.expr) -> Named | None:
    """The config class of an annotation; None if it allows a plain table, too."""
    if {one[0] for one in sources.hints(module, hint)} - {"none"} != {"json"}:
        return None
    for node in ast.walk(hint):
        found = sources.find(module, node.id) if isinstance(node, ast.Name) else None
        if found is not None and isinstance(found.node, ast.ClassDef) and _is_config(found.node):
            return found
    return None


def _is_config(node: ast.ClassDef) -> bool:
    """A data class, which refuses fields that it does not have."""
    return any(
        "config" in ast.unparse(one) or "dataclass" in ast.unparse(one) for one in node.decorator_list
    ) and not any("BaseModel" in ast.unparse(base) for base in node.bases)


def _declared(sources: Sources, config: Named) -> Iterator[tuple[Named, ast.stmt]]:
    """Its own statements and those of its bases."""
    assert isinstance(config.node, ast.ClassDef)
    for base in config.node.bases:
        found = sources.find(config.module, base.id) if isinstance(base, ast.Name) else None
        if found is not None and isinstance(found.node, ast.ClassDef):
            yield from _declared(sources, found)
    for statement in config.node.body:
        yield config, statement


def _is_read(name: str, hint: ast.expr, value: ast.expr | None) -> bool:
    """Whether the constructor takes it."""
    if name.startswith("_") or name in _NOT_TAKEN or "ClassVar" in ast.unparse(hint):
        return False
    match value:
        case ast.Call(keywords=words):
            return not any(
                word.arg == "init" and isinstance(word.value, ast.Constant) and word.value.value is False
                for word in words
            )
        case _:
            pass
    return True


def _rewritten(config: Named) -> set[str]:
    """Fields that a validator rewrites before they are checked (`FlashAttn` becomes `FLASH_ATTN`)."""
    assert isinstance(config.node, ast.ClassDef)
    names: set[str] = set()
    for method in config.node.body:
        for one in method.decorator_list if isinstance(method, ast.FunctionDef) else ():
            match one:
                case ast.Call(func=ast.Name(id="field_validator"), args=fields_of, keywords=words) if any(
                    word.arg == "mode" and ast.unparse(word.value) == "'before'" for word in words
                ):
                    names |= {str(field.value) for field in fields_of if isinstance(field, ast.Constant)}
                case _:
                    pass
    return names
