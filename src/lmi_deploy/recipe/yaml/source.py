"""The text of a recipe before YAML: decoded, limited in size, with the position of each character."""

from __future__ import annotations

from typing import Protocol

import yaml
from yaml.reader import Reader

from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.yaml.tree import SourcePosition

MAX_BYTES = MIB
MAX_DEPTH = 50
MAX_VALUES = 2_000
"""Far beyond any recipe; keeps the worst file within 50 ms."""


class YamlMark(Protocol):
    """A place as PyYAML's parsers give it, all three from 0 and in characters."""

    index: int
    line: int
    column: int


class SourceText:
    """One text to compose. `step` is its start in a `--set` argument; None for a file."""

    def __init__(self, text: str, origin: str, *, step: int | None = None) -> None:
        self.text = text
        self.origin = origin
        self._shift = step

    def place(self, line: int, column: int) -> SourcePosition:
        """From the parser's line and column, which count from 0."""
        if self._shift is not None:
            return SourcePosition(self.origin, 0, self._shift + column + 1)
        return SourcePosition(self.origin, line + 1, column + 1)

    def block_start(self, header: SourcePosition) -> SourcePosition:
        """The first character of the block whose `|` is at `header`."""
        lines = self.text.splitlines()[header.line :]
        first = next((line for line in lines if line.strip(" ")), "")
        return SourcePosition(self.origin, header.line + 1, len(first) - len(first.lstrip(" ")) + 1)

    def tab_before(self, mark: YamlMark) -> bool:
        """Whether the indentation before `mark` contains a tab."""
        before = self.text[mark.index - mark.column : mark.index]
        return "\t" in before and not before.strip(" \t")

    def syntax(self, exc: yaml.MarkedYAMLError) -> Problem:
        """The parser's own complaint, at its place."""
        mark = exc.problem_mark or exc.context_mark
        what = exc.problem or exc.context or "unreadable"
        context = f" {exc.context}" if exc.context and exc.problem else ""
        place = self.place(mark.line, mark.column) if mark else self.place(0, 0)
        if mark and (self.text[mark.index : mark.index + 1] == "\t" or self.tab_before(mark)):
            return place.problem("", "this line is indented with a tab", "use spaces for indentation")
        return place.problem("", f"not YAML: {what}{context}")


def decode(text: bytes | str, origin: str, *, step: int | None = None) -> SourceText | Problem:
    """The text ready to compose, or the one reason why it is invalid. `step`: see SourceText."""
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    start = _at("", 0, origin, step)
    if size > MAX_BYTES:
        hint = "give the path of the recipe, not of the model"
        return start.problem("", "more than 1 MiB", hint)
    if isinstance(text, bytes):
        decoded = _decoded(text, origin)
        if isinstance(decoded, Problem):
            return decoded
        text = decoded
    text = text.removeprefix("\ufeff")
    bad = _first_unprintable(text)
    if bad is not None:
        place = _at(text, bad, origin, step)
        return place.problem("", f"control character U+{ord(text[bad]):04X}", "remove it")
    return SourceText(text, origin, step=step)


def _first_unprintable(text: str) -> int | None:
    """By PyYAML's own pattern: one more of its size costs 3 ms of each start. A byte order mark inside is invisible."""
    bad = Reader.NON_PRINTABLE.search(text)
    places = [place for place in (bad.start() if bad else -1, text.find("\ufeff")) if place >= 0]
    return min(places, default=None)


def _decoded(raw: bytes, origin: str) -> str | Problem:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        before = raw[: exc.start].decode("utf-8")
        place = _at(before, len(before), origin)
        return place.problem("", f"byte 0x{raw[exc.start]:02x} is not UTF-8", "save the file as UTF-8")


def _at(text: str, index: int, origin: str, step: int | None = None) -> SourcePosition:
    if step is not None:
        return SourcePosition(origin, 0, step + index + 1)
    before = text[:index].replace("\r\n", "\n").replace("\r", "\n")
    return SourcePosition(origin, before.count("\n") + 1, len(before) - before.rfind("\n"))
