"""Docstrings, comments, messages, help texts, the documentation and the names of tests are plain English: without
words that slow a reader down."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "lmi_deploy"
TESTS = ROOT / "tests"
FOLDERS = sorted(path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__")
PAGES = [
    *map(ROOT.joinpath, ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
IDENTIFIERS = {"src/lmi_deploy/emulator/record_store.py": "told"}
"""Strings that people do not read: a field of state that earlier emulators stored."""
QUAINT = (
    r"told|telling|tells|anew|afresh|nobody|somebody|whoever|whence|in\s+vain|at\s+hand|astray|and\s+its\s+kin|aloud|"
    r"of\s+ours|beforehand|hinders?|luggage|on\s+its\s+way|for\s+good|amiss|begun|wish|wished|wishes|laid|lies|"
    r"stands|stood|lest|hence|thereof|naught|asunder|henceforth|upon"
)
PATTERN = re.compile(rf"\b(?:{QUAINT})\b", re.IGNORECASE)
IN_A_NAME = re.compile(
    rf"\b(?:{QUAINT})\b|^(?:it|what|who|whom|there)\b|no one|at once|not there|behind our back", re.IGNORECASE
)
"""A test's name also starts with its subject."""
QUOTED = re.compile(r'"[^"]*"|`[^`]*`')
"""Quotations from a vendor's page and names in code are not checked."""
LAST_WORDS = frozenset(re.findall(r"(\w+)(?:\||$)", QUAINT.replace("hinders?", "hinder|hinders")))
"""Without the words of a phrase that are plain by themselves."""
NAME = re.compile(r"\s*(?:async )?def test_(\w+)\(")


@cache
def may_be_quaint(source: str) -> bool:
    """Whether one of the words is anywhere in this source: it need not be parsed if none is."""
    escaped = re.sub(r"\\.", " ", source)
    return not LAST_WORDS.isdisjoint(re.findall("[a-z]+", f"{source}\n{escaped}".lower()))


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring (also of an attribute) and comment, without the help texts of commands; none of
    a source without one of the words."""
    if not may_be_quaint(source):
        return
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", [])
        decorators = [ast.unparse(decorator) for decorator in getattr(node, "decorator_list", [])]
        if isinstance(body, list) and not any(re.search(r"command|group", text) for text in decorators):
            for statement in body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield statement.lineno, str(statement.value.value)
    if not may_be_quaint("\n".join(line.partition("#")[2] for line in source.splitlines())):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def names_of_tests(source: str) -> Iterator[tuple[int, str]]:
    """Line and name, in words, of each test."""
    for number, line in enumerate(source.splitlines(), 1):
        if found := NAME.match(line):
            yield number, found[1].replace("_", " ")


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string literal that is not a docstring, and of each docstring of a command (its help);
    none of a source without one of the words."""
    if not may_be_quaint(source):
        return
    tree = ast.parse(source)
    hidden = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            yield node.lineno, node.value
        elif isinstance(node, ast.FunctionDef) and any(
            "command" in ast.unparse(d) for d in node.decorator_list
        ):
            yield node.lineno, ast.get_docstring(node) or ""


@pytest.mark.parametrize("package", sorted(path.name for path in SOURCE.iterdir() if path.is_dir()))
def test_docstrings_and_comments_are_plain_english(package: str) -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {word}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for line, text in prose(path.read_text(encoding="utf-8"))
        for word in PATTERN.findall(QUOTED.sub("", text))
    ]
    assert found == []


@pytest.mark.parametrize("package", sorted(path.name for path in SOURCE.iterdir() if path.is_dir()))
def test_messages_and_help_texts_are_plain_english(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}: {text[:80]}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for line, text in literals(path.read_text(encoding="utf-8"))
        if text != IDENTIFIERS.get(path.relative_to(ROOT).as_posix())
        for word in PATTERN.findall(QUOTED.sub("", text))
    ]
    assert found == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_and_comments_of_tests_are_plain_english(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}: {text[:80]}"
        for path in sorted((TESTS / folder).rglob("*.py"))
        for line, text in prose(path.read_text(encoding="utf-8"))
        for word in PATTERN.findall(QUOTED.sub("", text))
    ]
    assert found == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_of_tests_are_plain_english(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words}"
        for path in sorted((TESTS / folder).rglob("test_*.py"))
        for line, words in names_of_tests(path.read_text(encoding="utf-8"))
        if IN_A_NAME.search(words)
    ]
    assert found == []


def test_pages_are_plain_english() -> None:
    found = [
        f"{page.relative_to(ROOT)}:{line}: {word}: {text[:80]}"
        for page in PAGES
        for line, text in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for word in PATTERN.findall(QUOTED.sub("", text))
    ]
    assert found == []


def test_banned_word_in_a_message_is_found() -> None:
    source = 'raise X(f"{a}: nobody could", hint="at hand")\n@g.command()\ndef f():\n    """Told."""\n'
    words = [word for _, text in literals(source) for word in PATTERN.findall(text)]
    assert words == ["Told", "nobody", "at hand"]


@pytest.mark.parametrize("source", ['x = "a\\n{}"', "x = r'\\{}'", 'x = f"{{y}}{}"', "# {}\n"])
def test_source_with_a_banned_word_is_read(source: str) -> None:
    for word in LAST_WORDS:
        assert may_be_quaint(source.format(word.upper()))
        assert not may_be_quaint(source.format(f"a{word}b"))


@pytest.mark.parametrize(
    ("name", "is_found"),
    [
        ("test_what_is_lost_is_sent_again", True),
        ("test_who_comes_second_waits", True),
        ("test_two_runs_at_once_end_well", True),
        ("test_the_owner_is_told_why", True),
        ("test_lost_files_are_sent_again", False),
        ("test_report_shows_what_is_missing", False),
    ],
)
def test_banned_word_in_a_test_name_is_found(name: str, is_found: bool) -> None:
    source = f"class TestX:\n    async def {name}(self): ...\n\ndef {name}(): ...\n"
    names = [words for _, words in names_of_tests(source)]
    assert [bool(IN_A_NAME.search(words)) for words in names] == [is_found, is_found]


def test_banned_word_in_a_docstring_or_comment_is_found() -> None:
    source = '"""Plain."""\nx = 1\n"""What nobody asks."""\ny = "told"  # read anew\nz = "`on its way`"\n'
    assert [word for _, text in prose(source) for word in PATTERN.findall(text)] == ["nobody", "anew"]
