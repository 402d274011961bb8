"""One mutant, and which lines of which functions it changes."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LISTS = ("known.yaml", "drawn.yaml")


@dataclass(frozen=True)
class Mutant:
    """`old`, which occurs once in `file`, becomes `new`; `breaks` says what a user would see."""

    id: str
    file: str
    old: str
    new: str
    breaks: str
    source: str

    def applied(self, text: str) -> str:
        """ValueError: the code has changed since, so that the mutant has to be written again."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.id}: its text occurs {text.count(self.old)} times in {self.file}")
        return text.replace(self.old, self.new)

    def lines(self, text: str) -> set[int]:
        """The numbers of the lines that it changes or deletes; of an inserted line, that of the next one."""
        start = text[: text.index(self.old)].count("\n") + 1
        old, new = self.old.splitlines(), self.new.splitlines()
        changed: set[int] = set()
        for kind, first, last, _, _ in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if kind != "equal":
                changed.update(range(start + first, start + max(last, first + 1)))
        return changed


def read_mutants() -> list[Mutant]:
    return [Mutant(**entry) for name in LISTS for entry in yaml.safe_load((HERE / name).read_text("utf-8"))]


def statements(text: str, lines: Iterable[int]) -> set[int] | None:
    """The first lines of the statements that contain these; None if one runs at import: then every test that
    uses the module may see it.
    """
    wanted = set(lines)
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found: set[int] = set()
    for line in wanted:
        around = [node for node in functions if node.body[0].lineno <= line <= (node.end_lineno or 0)]
        if not around:
            return None
        inner = min(around, key=lambda node: (node.end_lineno or 0) - node.lineno)
        nodes = [node for node in ast.walk(inner) if isinstance(node, ast.stmt) and node is not inner]
        holding = [node for node in nodes if node.lineno <= line <= (node.end_lineno or 0)]
        nearest = min(holding, key=lambda node: (node.end_lineno or 0) - node.lineno, default=inner.body[0])
        found |= {line, nearest.lineno}
    return found
