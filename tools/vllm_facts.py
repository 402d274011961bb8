"""What one vLLM supports, besides its arguments: architectures, quantisation methods, attention backends, parsers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, Final

from tools.vllm_sources import Named, Sources

_MODELS: Final = ("vllm.model_executor.models.registry", "vllm.model_executor.models")
_NOT_ARCHITECTURES: Final = re.compile(r"ROCM|PREVIOUSLY|OOT|OUT_OF_TREE|BACKEND|SPECULATIVE|^_VLLM_MODELS$")
_QUANTIZATION: Final = "vllm.model_executor.layers.quantization"
_BACKENDS: Final = ("vllm.v1.attention.backends.registry", "vllm.attention.backends.registry")
_PARSERS: Final = {
    "tool_call_parser": ("vllm.tool_parsers", "vllm.entrypoints.openai.tool_parsers"),
    "reasoning_parser": ("vllm.reasoning", "vllm.entrypoints.openai.reasoning_parsers"),
}
_DTYPES: Final = {"half": "float16", "float": "float32"}


def architectures(sources: Sources) -> list[str]:
    """The classes of config.json that it has a model for."""
    found = {name for table in _tables(sources) for name in _keys(table)}
    return sorted(name for name in found if not name.startswith("Transformers"))


def uses_transformers(sources: Sources) -> bool:
    """Whether it runs other architectures with the model classes of transformers."""
    return any(
        key.startswith("Transformers")
        for module in _MODELS
        for node in sources.module(module)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        for key in _keys(node.value)
    )


def _tables(sources: Sources) -> Iterator[ast.Dict]:
    for module in _MODELS:
        for node in sources.module(module):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as table):
                    if name.endswith("_MODELS") and not _NOT_ARCHITECTURES.search(name):
                        yield table
                case _:
                    pass


def _keys(table: ast.Dict) -> Iterator[str]:
    for key in table.keys:
        match key:
            case ast.Constant(value=str(name)):
                yield name
            case _:
                pass


def quantization(sources: Sources) -> dict[str, list[Any]]:
    """Of each method the least compute capability (75 is 7.5) and the dtypes of its activations."""
    found = {}
    for node in (inner for top in sources.module(_QUANTIZATION) for inner in ast.walk(top)):
        match node:
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    match key, value:
                        case ast.Constant(value=str(method)), ast.Name(id=name):
                            config = sources.find(_enclosing(sources, name), name)
                            if config is not None and isinstance(config.node, ast.ClassDef):
                                found[method] = [_capability(sources, config), _activations(sources, config)]
                        case _:
                            pass
            case _:
                pass
    return found


def _enclosing(sources: Sources, name: str) -> str:
    """The module that a function of the package imports the name from."""
    for node in (inner for top in sources.module(_QUANTIZATION) for inner in ast.walk(top)):
        match node:
            case ast.ImportFrom(module=str(module), names=names, level=level):
                if any((alias.asname or alias.name) == name for alias in names):
                    return f"{_QUANTIZATION}.{module}" if level else module
            case _:
                pass
    return _QUANTIZATION


def _returned(sources: Sources, config: Named, method: str) -> ast.expr | None:
    """The expression that a method returns last, of the class or of its base."""
    if not isinstance(config.node, ast.ClassDef):
        return None
    for statement in config.node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == method:
            returns = [node.value for node in ast.walk(statement) if isinstance(node, ast.Return)]
            return returns[-1] if returns else None
    for base in config.node.bases:
        found = sources.find(config.module, ast.unparse(base))
        value = _returned(sources, found, method) if found else None
        if value is not None:
            return value
    return None


def _capability(sources: Sources, config: Named) -> int | None:
    match _returned(sources, config, "get_min_capability"):
        case ast.Constant(value=int(least)) if least > 0:
            return least
        case _:
            pass
    return None


def _activations(sources: Sources, config: Named) -> list[str]:
    match _returned(sources, config, "get_supported_act_dtypes"):
        case ast.List(elts=items):
            names = [ast.unparse(item).removeprefix("torch.") for item in items]
            return sorted(_DTYPES.get(name, name) for name in names)
        case _:
            pass
    return []


def backends(sources: Sources) -> dict[str, list[int]]:
    """The compute capabilities of each attention backend: [80, 121] from 8.0 to 12.1, [90, 99] of 9.x."""
    found = {}
    for module in _BACKENDS:
        for cls in sources.classes(module):
            if cls.name == "AttentionBackendEnum":
                for name, path in sources.members(cls):
                    home, _, backend = path.rpartition(".")
                    named = sources.find(home, backend) if home else None
                    span = _span(_returned(sources, named, "supports_compute_capability")) if named else None
                    if span:
                        found[name] = span
    return found


def _span(test: ast.expr | None) -> list[int] | None:
    numbers = [
        int(str(major.value)) * 10 + int(str(minor.value))
        for node in (ast.walk(test) if test else ())
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "DeviceCapability"
        for major, minor in [node.args]
        if isinstance(major, ast.Constant) and isinstance(minor, ast.Constant)
    ]
    match test:
        case ast.Compare(ops=[ast.GtE()]) if len(numbers) == 1:
            return [numbers[0], 999]
        case ast.BoolOp(op=ast.And(), values=[ast.Compare(ops=[ast.GtE()]), ast.Compare(ops=[ast.LtE()])]):
            return numbers if len(numbers) == 2 else None
        case ast.Compare(left=ast.Attribute(attr="major"), ops=[ast.Eq() | ast.In()], comparators=[majors]):
            listed = [int(str(node.value)) for node in ast.walk(majors) if isinstance(node, ast.Constant)]
            return [min(listed) * 10, max(listed) * 10 + 9] if listed else None
        case _:
            pass
    return None


def parsers(sources: Sources, option: str) -> list[str]:
    """The names that `tool_call_parser` or `reasoning_parser` may have."""
    found: set[str] = set()
    for module in (name for package in _PARSERS[option] for name in sources.names(package)):
        for node in (inner for top in sources.module(module) for inner in ast.walk(top)):
            match node:
                case ast.Call(func=ast.Attribute(attr="register_module"), args=[names, *_]):
                    found |= set(sources.words(module, names))
                case ast.Call(func=ast.Attribute(attr="register_module"), keywords=words):
                    found |= {
                        word
                        for key in words
                        if key.arg == "name"
                        for word in sources.words(module, key.value)
                    }
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as table) if name.endswith(
                    "_TO_REGISTER"
                ):
                    found |= set(_keys(table))
                case _:
                    pass
    return sorted(found)
