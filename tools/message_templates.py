"""The message templates of a vendor's source: what is raised, asserted, logged as an error, or warned of.

A template is the message with HOLE for each value. Python is read by `ast` (f-strings, `%`, `.format`, concatenations,
names assigned before), Java by its tokens. Nothing is executed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

HOLE: Final = "\x01"
_ERROR_CALLS: Final = frozenset({"error", "exception", "critical", "fatal"})
_WARNING_CALLS: Final = frozenset({"warning", "warn", "warning_once", "warning_advice"})
_PERCENT: Final = re.compile(r"%(?:\(\w+\))?[#0\- +]*(?:\d+|\*)?(?:\.\d+)?[srdifgexXc]")
_BRACES: Final = re.compile(r"\{[^{}]*\}")
_SAME: Final = frozenset({"dedent", "strip", "rstrip", "lstrip", "cleandoc", "_", "LazyString"})
_NAME: Final = re.compile(r"\w{4,}")
_LONGEST: Final = 110
"""Characters kept of a condition."""
Block = Sequence[ast.stmt]


@dataclass(frozen=True, slots=True)
class Template:
    """`kind` is E for an error, W for a warning; `names` are those of the values, if the condition lacks them."""

    text: str
    kind: str
    exception: str
    condition: str
    names: tuple[str, ...]
    line: int


@dataclass(slots=True)
class _Message:
    text: str = ""
    names: list[str] = field(default_factory=list)


def python_templates(source: str) -> Iterator[Template]:
    """Those of one module; none if it is no valid Python of today."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    yield from _Module().block(tree.body, "", {})


class _Module:
    """Walks statements with the condition that they are under and the messages that names hold."""

    def block(self, body: Block, condition: str, scope: dict[str, ast.expr]) -> Iterator[Template]:
        for statement in body:
            yield from self._statement(statement, condition, scope)

    def _statement(self, node: ast.stmt, condition: str, scope: dict[str, ast.expr]) -> Iterator[Template]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from self.block(node.body, "", dict(scope))
            case ast.If():
                test = _source(node.test)
                yield from self.block(node.body, test, scope)
                yield from self.block(node.orelse, f"not ({test})", scope)
            case ast.Try():
                yield from self._try(node, condition, scope)
            case ast.Match():
                for case in node.cases:
                    where = f"{_source(node.subject)} is {_source(case.pattern)}"
                    yield from self.block(case.body, where, scope)
            case ast.For() | ast.AsyncFor() | ast.While() | ast.With() | ast.AsyncWith():
                yield from self.block(node.body, condition, scope)
                yield from self.block(getattr(node, "orelse", []), condition, scope)
            case ast.Assert():
                if node.msg is not None:
                    yield from _template(node.msg, "AssertionError", f"not ({_source(node.test)})", scope)
            case _:
                yield from self._simple(node, condition, scope)

    def _try(self, node: ast.Try, condition: str, scope: dict[str, ast.expr]) -> Iterator[Template]:
        yield from self.block(node.body, condition, scope)
        for handler in node.handlers:
            caught = _source(handler.type) if handler.type else "BaseException"
            yield from self.block(handler.body, f"except {caught}", scope)
        yield from self.block([*node.orelse, *node.finalbody], condition, scope)

    def _simple(self, node: ast.stmt, condition: str, scope: dict[str, ast.expr]) -> Iterator[Template]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _has_text(value):
                scope[name] = value
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if name in scope:
                scope[name] = ast.BinOp(scope[name], ast.Add(), value)
            case _:
                pass
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and (found := _reported(call)):
                yield from _template(found[1], found[0], condition, scope)


def _reported(call: ast.Call) -> tuple[str, ast.expr] | None:
    """The exception's class (or the log's level) and the message of a call that reports something."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    messages = [
        *call.args,
        *(each.value for each in call.keywords if each.arg in ("message", "msg", "detail")),
    ]
    texts = [
        each for each in messages[:3] if not isinstance(each, ast.Constant) or isinstance(each.value, str)
    ]
    if not texts:
        return None
    if name.endswith(("Error", "Exception", "Exit")) or name in ("create_error_response",):
        return name, max(texts, key=_size)
    if name in _ERROR_CALLS:
        return "error", texts[0]
    return ("warning", texts[0]) if name in _WARNING_CALLS else None


def _size(node: ast.expr) -> int:
    return len(_message(node, {}).text) if _has_text(node) else int(isinstance(node, ast.Name))


def _template(node: ast.expr, said: str, condition: str, scope: dict[str, ast.expr]) -> Iterator[Template]:
    message = _message(node, scope)
    kind = "W" if said == "warning" else "E"
    known = set(_NAME.findall(condition))
    names = tuple(dict.fromkeys(name for name in message.names if name not in known))
    yield Template(
        text=_PERCENT.sub(HOLE, message.text) if said in ("warning", "error") else message.text,
        kind=kind,
        exception="" if said in ("warning", "error") else said,
        condition=condition[:_LONGEST],
        names=names[:4],
        line=node.lineno,
    )


def _message(node: ast.expr, scope: dict[str, ast.expr]) -> _Message:
    found = _Message()
    _read(node, scope, found, depth=0)
    found.text = re.sub(f"{HOLE}+", HOLE, found.text)
    return found


def _read(  # noqa: C901 - one case for each form of a message
    node: ast.expr, scope: dict[str, ast.expr], found: _Message, *, depth: int
) -> None:
    """Append the text of an expression, with a hole for what is only known at run time."""
    match node:
        case ast.Constant(value=str(text)):
            found.text += text
        case ast.JoinedStr(values=values):
            for each in values:
                _read(each, {}, found, depth=depth)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            _read(left, scope, found, depth=depth)
            _read(right, scope, found, depth=depth)
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            inner = _message(left, scope)
            found.text += _PERCENT.sub(HOLE, inner.text).replace("%%", "%")
            found.names += _names(right)
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            found.text += _BRACES.sub(HOLE, _message(value, scope).text)
            found.names += [
                name for each in (*node.args, *(k.value for k in node.keywords)) for name in _names(each)
            ]
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _SAME and _has_text(value):
            _read(value, scope, found, depth=depth)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[first, *_]) if name in _SAME:
            _read(first, scope, found, depth=depth)
        case ast.IfExp(body=body):
            _read(body, scope, found, depth=depth)
        case ast.Name(id=name) if name in scope and depth < 3:
            _read(scope[name], scope, found, depth=depth + 1)
        case _:
            found.text += HOLE
            found.names += _names(node)


def _names(node: ast.AST) -> list[str]:
    """The last part of each name: `self.config.max_model_len` is max_model_len."""
    found = []
    for each in ast.walk(node):
        name = each.attr if isinstance(each, ast.Attribute) else each.id if isinstance(each, ast.Name) else ""
        if len(name) > 3 and not name[0].isupper():
            found.append(name)
    return found


def _has_text(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in ast.walk(node))


def _source(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


_JAVA: Final = re.compile(
    r"(?:new\s+(?P<class>\w+(?:Exception|Error))|(?:logger|LOGGER)\s*\.\s*(?P<level>error|warn))\s*\("
)
_JAVA_IF: Final = re.compile(r"\bif\s*\((?P<test>[^{};]*)\)\s*\{[^{}]*$")
_JAVA_PART: Final = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"|(?P<name>\w+)|(?P<other>[(),])|\S')


def java_templates(source: str) -> Iterator[Template]:
    """Those of one class: `new XException("a" + b)` and `logger.error("a {}", b)`."""
    for found in _JAVA.finditer(source):
        text, names = _java_message(source, found.end())
        above = source[max(0, found.start() - 400) : found.start()]
        under = _JAVA_IF.search(above)
        yield Template(
            text=re.sub(r"\{\}|%[sd]", HOLE, re.sub(f"{HOLE}+", HOLE, text)),
            kind="W" if found["level"] == "warn" else "E",
            exception=found["class"] or "",
            condition=" ".join(under["test"].split())[:_LONGEST] if under else "",
            names=tuple(dict.fromkeys(name for name in names if len(name) > 3))[:4],
            line=source.count("\n", 0, found.start()) + 1,
        )


def _java_message(source: str, at: int) -> tuple[str, list[str]]:
    """The first argument from here on."""
    text, names, depth = "", list[str](), 0
    for part in _JAVA_PART.finditer(source, at):
        if part["text"] is not None and not depth:
            text += part["text"].encode().decode("unicode_escape", "replace")
        elif part["other"] == "(":
            depth += 1
        elif part["other"] == ")" and depth:
            depth -= 1
        elif part["other"] in (")", ",") and not depth:
            break
        elif part["name"]:
            text += HOLE
            names.append(part["name"])
    return text, names
