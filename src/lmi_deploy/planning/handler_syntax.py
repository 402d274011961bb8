"""Check a user's own model.py by its syntax tree before deployment: what would fail in the server, and what may."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lmi_deploy.planning.handler_imports import missing_imports

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_HEAVY = frozenset(
    {
        *(
            "from_pretrained",
            "snapshot_download",
            "hf_hub_download",
            "load_model",
            "load_checkpoint",
            "pipeline",
        ),
        *("SentenceTransformer", "LLM", "sleep", "urlopen", "urlretrieve", "check_call", "check_output"),
    }
)
"""Calls that take seconds, from any module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerFinding:
    """`fatal`: the server would not start, or answer every request with an error."""

    line: int
    what: str
    hint: str
    fatal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerRequirements:
    """How the server will call it, and the packages of its environment (None: unknown)."""

    function: str = "handle"
    async_mode: bool = False
    packages: tuple[str, ...] = ()
    requirements: str = ""


def check_handler(source: bytes, requirements: HandlerRequirements) -> tuple[HandlerFinding, ...]:
    """Everything found, in the order of the file."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return (
            HandlerFinding(
                line=error.lineno or 1, what=f"syntax error: {error.msg}", hint="correct the line"
            ),
        )
    except ValueError as error:  # a zero byte
        return (HandlerFinding(line=1, what=f"not Python: {error}", hint="save it as text in UTF-8"),)
    found = [*_function(tree, requirements), *_at_import(tree)]
    for name, line in missing_imports(tree, requirements.packages, requirements.requirements):
        what = f"imports {name}, which is neither in the server's environment nor in requirements.txt"
        hint = "add its package to the recipe's requirements"
        found.append(HandlerFinding(line=line, what=what, hint=hint, fatal=False))
    return tuple(sorted(found, key=lambda finding: finding.line))


def _function(tree: ast.Module, requirements: HandlerRequirements) -> Iterator[HandlerFinding]:
    defined = [node for node in ast.walk(tree) if _names(node, requirements.function)]
    top = _defined_at_top(tree.body, requirements.function)
    if top is None and not defined:
        others = [node.name for node in tree.body if isinstance(node, _Function)]
        note = f"it defines {', '.join(others[:5])}" if others else "it defines no function"
        hint = f"write `def {requirements.function}(inputs)`, or set options.handler to the name of yours"
        yield HandlerFinding(line=1, what=f"no function {requirements.function}; {note}", hint=hint)
    elif top is not None:
        yield from _signature(top)
        yield from _mode(top, requirements)
        yield from _returns(top)


def _names(node: ast.AST, name: str) -> bool:
    """Whether this may give the module that name: an import, an assignment, or a star import."""
    if isinstance(node, ast.ImportFrom):
        return any((alias.asname or alias.name) in (name, "*") for alias in node.names)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(target, ast.Name) and target.id == name for target in targets)
    return False


def _defined_at_top(body: Sequence[ast.stmt], name: str) -> _Function | None:
    """The last definition of that name outside of functions and classes."""
    found: _Function | None = None
    for node in body:
        if isinstance(node, _Function) and node.name == name:
            found = node
        elif isinstance(node, ast.If | ast.Try | ast.With):
            inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            found = _defined_at_top(inner, name) or found
    return found


def _signature(function: _Function) -> Iterator[HandlerFinding]:
    if function.decorator_list:
        return  # a decorator may give it any signature
    arguments = function.args
    places = [*arguments.posonlyargs, *arguments.args]
    required = len(places) - len(arguments.defaults)
    named = [
        arg.arg
        for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if value is None
    ]
    takes_one = required <= 1 and (places or arguments.vararg) and not named
    if not takes_one:
        word = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
        listed = ", ".join([*(arg.arg for arg in places), *(f"*, {name}" for name in named)])
        what = f"{function.name}({listed}) cannot be called with one argument, as the server does"
        yield HandlerFinding(line=function.lineno, what=what, hint=f"write `{word} {function.name}(inputs)`")


def _mode(function: _Function, requirements: HandlerRequirements) -> Iterator[HandlerFinding]:
    """Whether a call returns an Output at once, or an awaitable."""
    line, name = function.lineno, function.name
    if function.decorator_list:
        return
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(function))
    if isinstance(function, ast.AsyncFunctionDef) and not requirements.async_mode:
        hint = 'set options: {async_mode: "true"}, or drop the word async'
        yield HandlerFinding(
            line=line, what=f"{name} is asynchronous, but the server does not await it", hint=hint
        )
    elif (
        isinstance(function, ast.FunctionDef)
        and requirements.async_mode
        and not _may_give_awaitable(function)
    ):
        hint = f"write `async def {name}(inputs)`, or remove options.async_mode"
        yield HandlerFinding(
            line=line, what=f"{name} is not asynchronous, but the server awaits its result", hint=hint
        )
    elif yields:
        hint = "return Output().add_stream_content(...)"
        if requirements.async_mode:
            hint = "return an asynchronous generator that another function creates"
        yield HandlerFinding(
            line=line,
            what=f"{name} is a generator, which the server does not accept as a response",
            hint=hint,
        )


def _may_give_awaitable(function: ast.FunctionDef) -> bool:
    given = [node.value for node in _own(function) if isinstance(node, ast.Return) and node.value is not None]
    return bool(given) and all(isinstance(value, ast.Call) and not _of_output(value) for value in given)


def _of_output(call: ast.Call) -> bool:
    """`Output(...)`, or a chain of calls that starts with it."""
    if _called(call).endswith("Output"):
        return True
    before = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(before, ast.Call) and _of_output(before)


def _returns(function: _Function) -> Iterator[HandlerFinding]:
    """A wrong result in one branch costs its requests a 424; in every branch it is no handler."""
    given = [node for node in _own(function) if isinstance(node, ast.Return) and _gives_something(node.value)]
    wrong = [(node.lineno, kind) for node in given if (kind := _plain_value(node.value))]
    for line, kind in wrong:
        what = f"returns {kind}, but the server accepts only an Output: such a request gets status 424"
        hint = "return Output().add_as_json(...), or None for nothing"
        yield HandlerFinding(line=line, what=what, hint=hint, fatal=len(wrong) == len(given))


def _gives_something(value: ast.expr | None) -> bool:
    return value is not None and not (isinstance(value, ast.Constant) and value.value is None)


def _plain_value(value: ast.expr | None) -> str:
    """The kind of plain value that an expression certainly is; empty for None and if unknown."""
    kinds = {ast.Dict: "a dict", ast.DictComp: "a dict", ast.List: "a list", ast.ListComp: "a list"}
    kinds |= {ast.Tuple: "a tuple", ast.Set: "a set", ast.JoinedStr: "a text"}
    if isinstance(value, ast.Constant) and value.value is not None:
        return f"a {'text' if isinstance(value.value, str) else type(value.value).__name__}"
    if isinstance(value, ast.Call) and _called(value) == "dumps":
        return "a text"
    return kinds.get(type(value), "")


def _own(function: _Function) -> Iterator[ast.AST]:
    """The nodes of a function's own body, without those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _Function | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _at_import(tree: ast.Module) -> Iterator[HandlerFinding]:
    """Work that is done when the file is imported, which the server does up to three times."""
    for node in _executed(tree.body):
        calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
        heavy = next((_called(call) for call in calls if _called(call) in _HEAVY), None)
        if heavy:
            what = f"{heavy}(...) runs at import, and DJLServing 0.36 imports the file three times"
            hint = "call it in the handler's first call, the one without content"
            yield HandlerFinding(line=node.lineno, what=what, hint=hint, fatal=False)


def _executed(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            if not _is_main(node):
                yield from _executed(
                    [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
                )
        elif not isinstance(node, _Function | ast.ClassDef | ast.Import | ast.ImportFrom):
            yield node


def _is_main(node: ast.stmt) -> bool:
    names: Collection[str] = (
        {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}
        if isinstance(node, ast.If)
        else ()
    )
    return "__name__" in names


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
