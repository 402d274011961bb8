"""The engine arguments of one vLLM: type, range and allowed values of each, from its own definitions.

An argument is declared in `EngineArgs.add_cli_args`: with `type` and `choices` (older versions), or with the keywords
that vLLM derives from the annotation of a config class's field. Ranges are pydantic's `Field(ge=...)`, or comparisons
that raise in the methods of a config class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools.vllm_sources import ARGUMENTS, Hint, Sources

Rule = dict[str, Any]
"""`kind`, and where they apply `values`, `ge`, `gt`, `le`, `lt`, `open`: other words pass, too."""
_SIZES: Final = "human_readable_int"
_TYPES: Final = {
    "int": "int",
    "float": "float",
    "json.loads": "json",
    "nullable_kvs": "pairs",
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size",
}
_BOUNDS: Final = ("ge", "gt", "le", "lt")
_REVERSED: Final = {ast.Lt: "ge", ast.LtE: "gt", ast.Gt: "le", ast.GtE: "lt"}
"""`if self.x < 1: raise` means that it must be at least 1."""
_REGISTRY: Final = {
    "quantization": ("vllm.model_executor.layers.quantization", "QUANTIZATION_METHODS"),
    "load_format": ("vllm.model_executor.model_loader", "_LOAD_FORMAT_TO_MODEL_LOADER"),
}


def arguments(sources: Sources) -> dict[str, Rule]:
    """Every argument that an option of LMI can pass on."""
    modules = sorted(sources.names("vllm.config"))
    configs = {node.name: (module, node) for module in modules for node in sources.classes(module)}
    declared = _Declared(sources, configs)
    found: dict[str, Rule] = {}
    for name in _fields(sources):
        rule = declared.rule(name)
        if rule is not None:
            found[name] = rule
    return found


def _fields(sources: Sources) -> Iterator[str]:
    """Of EngineArgs and of its asynchronous subclass, which is what LMI fills."""
    for node in sources.classes(ARGUMENTS):
        if node.name in ("EngineArgs", "AsyncEngineArgs"):
            for statement in node.body:
                match statement:
                    case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                        yield name
                    case _:
                        pass


class _Declared:
    """The `add_argument` calls of one version."""

    def __init__(self, sources: Sources, configs: Mapping[str, tuple[str, ast.ClassDef]]) -> None:
        self._sources, self._configs = sources, configs
        self._calls: dict[str, ast.Call] = {}
        self._tables: dict[str, str] = {}
        self._sizes: set[str] = set()
        for node in (inner for top in sources.module(ARGUMENTS) for inner in ast.walk(top)):
            match node:
                case ast.Call(func=ast.Attribute(attr="add_argument"), args=flags):
                    for flag in (flag.value for flag in flags if isinstance(flag, ast.Constant)):
                        self._calls.setdefault(str(flag).lstrip("-").replace("-", "_"), node)
                case ast.Assign(
                    targets=[ast.Name(id=table)],
                    value=ast.Call(func=ast.Name(id="get_kwargs"), args=[ast.Name(id=cls)]),
                ):
                    self._tables[table] = cls
                case ast.Assign(targets=[ast.Name(id=table)], value=ast.Set(elts=items)) if _SIZES in table:
                    self._sizes |= {str(item.value) for item in items if isinstance(item, ast.Constant)}
                case _:
                    pass

    def rule(self, name: str) -> Rule | None:
        """None if the version has no such argument on its command line, which is how LMI passes it."""
        call = self._calls.get(name)
        if call is None:
            return None
        config, field = self._field(call)
        given = {word.arg: word.value for word in call.keywords if word.arg}
        if "choices" in given:
            rule = _choice(self._sources.words(ARGUMENTS, given["choices"]))
        elif config is not None:
            rule = self._of_field(name, config, field)
        elif "action" in given:
            rule = {"kind": "flag"}
        else:
            rule = self._of_type(given.get("type"))
        if rule["kind"] in ("int", "float", "size"):
            return rule | self._bounds(config, field or name)
        return rule | self._registry(name) if name in _REGISTRY else rule

    def _field(self, call: ast.Call) -> tuple[str | None, str]:
        """The config class and its field, whose annotation gives the keywords."""
        for word in call.keywords:
            for node in ast.walk(word.value) if word.arg is None else ():
                match node:
                    case ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str(field))):
                        return self._tables.get(table), field
                    case ast.Name(id=table) if table.endswith("_kwargs") and table not in self._tables:
                        return self._variable(table)
                    case _:
                        pass
        return None, ""

    def _variable(self, table: str) -> tuple[str | None, str]:
        """`moe_backend_kwargs = kernel_kwargs["moe_backend"]`."""
        for node in (inner for top in self._sources.module(ARGUMENTS) for inner in ast.walk(top)):
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=found)],
                    value=ast.Subscript(value=ast.Name(id=source), slice=ast.Constant(value=str(field))),
                ) if found == table:
                    return self._tables.get(source), field
                case _:
                    pass
        return None, ""

    def _annotation(self, config: str, field: str) -> tuple[str, ast.expr | None, ast.expr | None]:
        module, node = self._configs.get(config, ("", None))
        while node is not None:
            for statement in node.body:
                match statement:
                    case ast.AnnAssign(target=ast.Name(id=found), annotation=hint, value=value) if (
                        found == field
                    ):
                        return module, hint, value
                    case _:
                        pass
            base = node.bases[0] if node.bases else None
            module, node = self._configs.get(ast.unparse(base), ("", None)) if base else ("", None)
        return "", None, None

    def _of_field(self, name: str, config: str, field: str) -> Rule:
        module, hint, _ = self._annotation(config, field)
        if hint is None:
            return {"kind": "text"}
        rule = rule_of(self._sources.hints(module, hint))
        is_size = name == "max_model_len" or name in self._sizes or field in self._sizes
        return {"kind": "size"} if rule["kind"] == "int" and is_size and self._takes_sizes() else rule

    def _takes_sizes(self) -> bool:
        return any(
            (isinstance(node, ast.FunctionDef) and node.name == _SIZES)
            or (isinstance(node, ast.ImportFrom) and any(alias.name == _SIZES for alias in node.names))
            for node in self._sources.module(ARGUMENTS)
        )

    def _of_type(self, node: ast.expr | None) -> Rule:
        if node is None:
            return {"kind": "text"}
        text = ast.unparse(node)
        for known, kind in _TYPES.items():
            if text == known or text.endswith(f"({known})"):
                return {"kind": kind}
        return {"kind": "json"} if text.endswith((".from_cli", ".from_json")) else {"kind": "text"}

    def _registry(self, name: str) -> Rule:
        """Declared as free text, and looked up in a registry: any other word is refused."""
        words = _registered(self._sources, *_REGISTRY[name])
        return {**_choice(words), "open": False} if words else {}

    def _bounds(self, config: str | None, field: str) -> Rule:
        for owner in [config] if config else self._configs:
            _, _, value = self._annotation(owner, field)
            stated = field_bounds(value) | _raised_bounds(self._configs[owner][1], field)
            if stated:
                return stated
        return {}


def rule_of(hints: frozenset[Hint]) -> Rule:
    """As vLLM's `get_kwargs` maps an annotation to an argument: the first kind that matches counts."""
    by_kind = {hint[0]: hint for hint in hints}
    words = [word for hint in hints if hint[0] == "literal" for word in hint[1]]
    if "json" in by_kind:
        return {"kind": "json"}
    if "bool" in by_kind:
        return {"kind": "text"} if "str" in by_kind else {"kind": "flag"}
    if words:
        return {**_choice(tuple(words)), **({"open": True} if "str" in by_kind else {})}
    if "list" in by_kind:
        return {"kind": "list"}
    for kind in ("int", "float"):
        if kind in by_kind:
            return {"kind": kind}
    if "dict" in by_kind:
        return {"kind": "text"} if "str" in by_kind or "other" in by_kind else {"kind": "json"}
    if "enum" in by_kind:
        return {"kind": "name", "values": sorted(name for name, _ in by_kind["enum"][1])}
    return {"kind": "text"}


def _choice(words: tuple[str, ...]) -> Rule:
    named = tuple(dict.fromkeys(word for word in words if word and word != "None"))
    return {"kind": "choice", "values": list(named)} if named else {"kind": "text"}


def _registered(sources: Sources, module: str, name: str) -> tuple[str, ...]:
    found = sources.find(module, name)
    return sources.words(found.module, found.node) if found else ()


def field_bounds(value: ast.expr | None) -> Rule:
    match value:
        case ast.Call(func=ast.Name(id="Field"), keywords=words):
            return {word.arg: ast.literal_eval(word.value) for word in words if word.arg in _BOUNDS}
        case _:
            pass
    return {}


def _raised_bounds(node: ast.ClassDef, field: str) -> Rule:
    """`if self.<field> > 1.0: raise`."""
    found: Rule = {}
    methods = (inner for inner in node.body if isinstance(inner, ast.FunctionDef))
    for statement in (statement for method in methods for statement in method.body):
        match statement:
            case ast.If(test=test, body=[ast.Raise(), *_]):
                options = (
                    test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
                )
                for option in options:
                    match option:
                        case ast.Compare(
                            left=ast.Attribute(value=ast.Name(id="self"), attr=attribute),
                            ops=[operator],
                            comparators=[ast.Constant(value=int() | float() as limit)],
                        ) if attribute == field and type(operator) in _REVERSED:
                            found[_REVERSED[type(operator)]] = limit
                        case _:
                            pass
            case _:
                pass
    return found
