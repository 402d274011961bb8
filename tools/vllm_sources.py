"""The Python sources of a wheel of vLLM or SGLang, read by `ast`: names are followed over imports, nothing is run.

The wheel is never installed: it would bring torch and CUDA.
"""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

ARGUMENTS: Final = "vllm.engine.arg_utils"
_WRAPPERS: Final = ("Annotated", "SkipValidation", "InitVar", "ClassVar")
_NONE: Final = frozenset({("none",)})
Hint = tuple[Any, ...]
"""One alternative of an annotation: ("int",), ("literal", words), ("enum", names), ("list", item), ("json",) ..."""


@dataclass(frozen=True, slots=True)
class Named:
    """Where a name is defined: the module, and the class or the assigned value."""

    module: str
    node: ast.AST


class Sources:
    """The modules of one wheel."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """`texts`: by path."""
        self._texts = {_module_name(path): text for path, text in texts.items()}
        self._packages = {_module_name(path) for path in texts if path.endswith("/__init__.py")}
        self.module = cache(self._module)
        self.find = cache(self._find)

    @classmethod
    def of_wheel(cls, wheel: Path, package: str = "vllm") -> Sources:
        with zipfile.ZipFile(wheel) as archive:
            paths = [
                path for path in archive.namelist() if path.startswith(f"{package}/") and path.endswith(".py")
            ]
            return cls({path: archive.read(path).decode() for path in paths})

    def names(self, prefix: str) -> Iterator[str]:
        """The modules below a package, and the package itself."""
        return (name for name in self._texts if name == prefix or name.startswith(f"{prefix}."))

    def _module(self, name: str) -> Sequence[ast.stmt]:
        """Its statements, also those inside of `if` and `try`; empty if there is no such module."""
        return tuple(_flat(ast.parse(self._texts[name]).body)) if name in self._texts else ()

    def _find(self, module: str, name: str) -> Named | None:
        """The definition of a name, through as many imports as it takes. None: outside of vLLM."""
        for statement in self.module(module):
            match statement:
                case ast.ClassDef(name=found) if found == name:
                    return Named(module, statement)
                case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                    return Named(module, value)
                case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value) if found == name:
                    return Named(module, value)
                case ast.ImportFrom(module=source, names=names, level=level):
                    for alias in names:
                        if (alias.asname or alias.name) == name:
                            return self.find(self._absolute(module, source or "", level), alias.name)
                case _:
                    pass
        return None

    def _absolute(self, module: str, source: str, level: int) -> str:
        if not level:
            return source
        parts = module.split(".")
        base = parts[: len(parts) - level + (module in self._packages)]
        return ".".join((*base, source) if source else base)

    def classes(self, module: str) -> Iterator[ast.ClassDef]:
        return (node for node in self.module(module) if isinstance(node, ast.ClassDef))

    def words(self, module: str, node: ast.AST | None) -> tuple[str, ...]:
        """The text constants in an expression, followed over names: `[*METHODS, None]`, `get_args(Method)`."""
        match node:
            case ast.Constant(value=value) if value is not None:
                return (str(value),)
            case ast.Name(id=name):
                found = self.find(module, name)
                return self.words(found.module, found.node) if found else ()
            case ast.ClassDef():
                return tuple(value for _, value in self.members(node))
            case ast.ListComp(generators=[ast.comprehension(iter=source)]):
                return self.words(module, source)
            case ast.Dict(keys=keys):
                return tuple(word for key in keys for word in self.words(module, key))
            case ast.Call(func=ast.Name(id="get_args" | "list" | "sorted" | "set"), args=[inner]):
                return self.words(module, inner)
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
                return self.words(module, inner)
            case ast.List() | ast.Tuple() | ast.Set():
                return tuple(word for item in node.elts for word in self.words(module, item))
            case ast.Starred(value=inner):
                return self.words(module, inner)
            case _:
                pass
        return ()

    def members(self, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
        """Name and value of an Enum's members."""
        for statement in node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_"):
                    text = value.value if isinstance(value, ast.Constant) else ""
                    yield name, str(text)
                case _:
                    pass

    def hints(self, module: str, node: ast.AST | None) -> frozenset[Hint]:
        """The alternatives of an annotation."""
        match node:
            case None | ast.Constant(value=None):
                return _NONE
            case ast.Constant(value=str(text)):
                return self.hints(module, ast.parse(text, mode="eval").body)
            case ast.BinOp(left=left, right=right):
                return self.hints(module, left) | self.hints(module, right)
            case ast.Subscript(value=ast.Name(id=name), slice=inner):
                return self._generic(module, name, inner)
            case ast.Name(id=name):
                return self._plain(module, name)
            case _:
                pass
        return frozenset({("other",)})

    def _generic(self, module: str, name: str, inner: ast.expr) -> frozenset[Hint]:
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        match name:
            case "Optional":
                return self.hints(module, inner) | _NONE
            case "Union":
                return frozenset().union(*(self.hints(module, part) for part in parts))
            case "Literal":
                return frozenset({("literal", self.words(module, inner))})
            case "list" | "List" | "tuple" | "Tuple" | "set" | "Set" | "Sequence":
                return frozenset({("list", *sorted(map(str, self.hints(module, parts[0]))))})
            case "dict" | "Dict" | "Mapping":
                return frozenset({("dict",)})
            case _ if name in _WRAPPERS:
                return self.hints(module, parts[0])
            case _:
                pass
        return frozenset({("other",)})

    def _plain(self, module: str, name: str) -> frozenset[Hint]:
        if name in ("int", "float", "str", "bool", "dict"):
            return frozenset({(name,)})
        if name in ("Dict", "Mapping", "Any"):
            return frozenset({("dict",) if name != "Any" else ("other",)})
        found = self.find(module, name)
        match found.node if found else None:
            case ast.ClassDef(bases=bases) as node:
                if any("Enum" in ast.unparse(base) for base in bases):
                    return frozenset({("enum", tuple(self.members(node)))})
                decorated = any(
                    "config" in ast.unparse(one) or "dataclass" in ast.unparse(one)
                    for one in node.decorator_list
                )
                return frozenset({("json",)}) if decorated else frozenset({("other",)})
            case ast.expr() as value if found:
                return self.hints(found.module, value)
            case _:
                pass
        return frozenset({("other",)})


def _flat(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """What a type checker would see comes first: `if TYPE_CHECKING`, then the rest."""
    for statement in body:
        match statement:
            case ast.If(body=inner, orelse=other):
                yield from _flat(inner)
                yield from _flat(other)
            case ast.Try(body=inner):
                yield from _flat(inner)
            case _:
                yield statement


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
