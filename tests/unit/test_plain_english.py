"""Docstrings and comments of src/ are plain English: words that a hurried reader stumbles over do not occur."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "lmi_deploy"
QUAINT = (
    r"told|telling|tells|anew|afresh|nobody|somebody|whoever|whence|in\s+vain|at\s+hand|astray|and\s+its\s+kin|aloud|"
    r"of\s+ours|beforehand|hinders?|luggage|on\s+its\s+way|for\s+good|amiss|begun|wish|wished|wishes|laid|lies|"
    r"stands|stood|lest|hence|thereof|naught|asunder|henceforth|upon"
)
PATTERN = re.compile(rf"\b(?:{QUAINT})\b", re.IGNORECASE)
QUOTED = re.compile(r'"[^"]*"|`[^`]*`')
"""Quotations from a vendor's page and names in code are not checked."""


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring (also of an attribute) and comment, without the help texts of commands."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", [])
        decorators = [ast.unparse(decorator) for decorator in getattr(node, "decorator_list", [])]
        if isinstance(body, list) and not any(re.search(r"command|group", text) for text in decorators):
            for statement in body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield statement.lineno, str(statement.value.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@pytest.mark.parametrize("package", sorted(path.name for path in SOURCE.iterdir() if path.is_dir()))
def test_docstrings_and_comments_have_no_quaint_words(package: str) -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {word}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for line, text in prose(path.read_text(encoding="utf-8"))
        for word in PATTERN.findall(QUOTED.sub("", text))
    ]
    assert found == []


def test_a_quaint_word_is_found() -> None:
    source = '"""Plain."""\nx = 1\n"""What nobody asks."""\ny = "told"  # read anew\nz = "`on its way`"\n'
    assert [word for _, text in prose(source) for word in PATTERN.findall(text)] == ["nobody", "anew"]
