"""The options of every engine in words, for the page of options and for `lmi explain`: one reading of one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from lmi_deploy.catalog import options, server_arguments
from lmi_deploy.catalog.vllm_arguments import ArgumentRule
from lmi_deploy.recipe.checks.option_values import rule_of

_KINDS = {
    "bool": "`true` or `false`",
    "flag": "`true` or `false`",
    "int": "whole number",
    "size": "whole number, also with a suffix (`8k`)",
    "float": "number",
    "json": "JSON object",
    "list": "one item",
    "pairs": "`name=number,...`",
    "text": "",
    "": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionDescription:
    """`values` and `versions` as Markdown, `choices` as they are written; of the newest version that knows it."""

    engine: str
    name: str
    values: str
    versions: str
    choices: tuple[str, ...] = ()


def described_engines() -> tuple[str, ...]:
    """Engines whose options the tables contain."""
    ended = {name for name in options.engines() if options.newest(name) not in options.versions()}
    return (*(name for name in options.engines() if name not in ended), *server_arguments.SERVERS)


@cache
def engine_options(engine: str) -> tuple[OptionDescription, ...]:
    """Each option that any version of the engine's server knows."""
    if engine in server_arguments.SERVERS:
        return tuple(_of_own_server(engine))
    return tuple(_of_djl(engine))


def _of_djl(engine: str) -> Iterator[OptionDescription]:
    order = options.versions()[: options.versions().index(options.newest(engine)) + 1]
    known = {version: set(options.names(engine, version)) for version in order}
    for name in sorted(set().union(*known.values())):
        if name.startswith("_"):
            continue
        having = [version for version in order if name in known[version]]
        now = options.option_status(engine, name, having[-1])
        rule = rule_of(name, _image_of(having[-1])) if engine == "vllm" else None
        yield OptionDescription(
            engine=engine,
            name=name,
            values=", ".join(f"`{value}`" for value in now.values) or values_text(rule, now.kind),
            versions=_spans(having, order),
            choices=now.values or _choices(rule, now.kind),
        )


def _of_own_server(engine: str) -> Iterator[OptionDescription]:
    order = server_arguments.versions(engine)
    for name in server_arguments.all_names(engine):
        having = server_arguments.versions_with(name, engine)
        rule = server_arguments.argument(name, server_arguments.server_of(engine, having[-1]))
        yield OptionDescription(
            engine=engine,
            name=name,
            values=values_text(rule, ""),
            versions=_spans(having, order),
            choices=_choices(rule, ""),
        )


def _choices(rule: ArgumentRule | None, kind: str) -> tuple[str, ...]:
    if rule is not None and rule.values:
        return rule.values
    return ("true", "false") if (rule.kind if rule else kind) in ("bool", "flag") else ()


def values_text(rule: ArgumentRule | None, kind: str) -> str:
    """Type and range, or the allowed words."""
    if rule is None:
        return _KINDS.get(kind, kind)
    words = ", ".join(f"`{value}`" for value in rule.values)
    if rule.kind in ("choice", "name"):
        return f"{words} and others" if rule.is_open else words
    known = rule.kind if rule.kind != "text" else kind
    return ", ".join(filter(None, (_KINDS.get(known, known), rule.range)))


def _image_of(version: str) -> int:
    """The LMI image of a server version of the table."""
    number, _, image = version.partition("/lmi")
    return int(image) if image else int(number.split(".")[1]) - 18


def _spans(known: Sequence[str], order: Sequence[str]) -> str:
    """`0.27.0 to 0.31.0, 0.34.0 and newer`, or `all`."""
    spans: list[list[str]] = []
    for version in known:
        if spans and order.index(version) == order.index(spans[-1][-1]) + 1:
            spans[-1].append(version)
        else:
            spans.append([version])
    return ", ".join(_span(span, order) for span in spans)


def _span(span: Sequence[str], order: Sequence[str]) -> str:
    first, last = span[0], span[-1]
    oldest, newest = order[0], order[-1]
    if last == newest:
        return "all" if first == oldest else f"{first} and newer"
    return f"up to {last}" if first == oldest else f"{first} to {last}" if first != last else first
