"""The documentation is consistent: links have targets, the navigation has every page, examples are well
formed."""

from __future__ import annotations

import ast
import json
import re
import shlex
from functools import cache
from pathlib import Path

import click
import yaml

from lmi_deploy.catalog.doc_pages import find_page
from lmi_deploy.cli.command_group import lmi
from lmi_deploy.errors import RecipeError
from tests.support.pages import DOCS, OUTSIDE, PAGES, ROOT, Block, anchors, blocks, links, shell_commands
from tests.support.recipe_parsing import parse

WRITTEN = [page for page in PAGES if page.name not in {"cli.md", "failures.md"}]
BASE = {"name": "x", "model_id": "org/model", "engine": "vllm", "instance_type": "ml.g5.xlarge"}


def identify(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_every_link_points_to_an_existing_page_and_anchor() -> None:
    wrong = []
    for page, link in [(each, link) for each in (*PAGES, *OUTSIDE) for link in links(each)]:
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(f"{identify(page)}: {link}")
    assert not wrong


def test_every_page_is_in_the_navigation() -> None:
    listed: list[str] = []
    for block in blocks(DOCS / "index.md"):
        if block.language == "{toctree}":
            listed += [line for line in block.text.splitlines() if line and not line.startswith(":")]
    pages = [str(page.relative_to(DOCS).with_suffix("")) for page in PAGES if page != DOCS / "index.md"]
    assert sorted(listed) == sorted(pages)


def test_every_page_named_in_code_exists() -> None:
    named = re.compile(r"(?<![\w/.-])(?:\.\./)?docs/([\w/-]+\.(?:md|json|svg|txt))(?:#([\w-]+))?")
    wrong = []
    for folder in (
        "src",
        "tools",
        "tests",
        "recipes",
        "templates",
        "benchmarks",
        "Makefile",
        "pyproject.toml",
    ):
        files = [ROOT / folder] if (ROOT / folder).is_file() else (ROOT / folder).rglob("*")
        for file in files:
            if file.suffix not in {".py", ".txt", ".yaml", ".jinja", ".toml", ""} or not file.is_file():
                continue
            for path, anchor in named.findall(file.read_text(encoding="utf-8", errors="replace")):
                target = DOCS / path
                if not target.exists() or (anchor and anchor not in anchors(target)):
                    wrong.append(f"{file.relative_to(ROOT)}: docs/{path}{'#' if anchor else ''}{anchor}")
    assert not wrong


def test_texts_for_users_name_pages_by_the_command_that_shows_them() -> None:
    """The user of a wheel has no folder docs: its paths are for docstrings alone."""
    by_path, unknown = [], []
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        unknown += [name for name in re.findall(r"`lmi docs ([\w-]+)`", text) if find_page(name) is None]
        if re.search(r"docs/[\w-]+/[\w-]+\.md", text):
            tree = ast.parse(text)
            documented = [each.value for each in ast.walk(tree) if isinstance(each, ast.Expr)]
            strings = [
                each for each in ast.walk(tree) if isinstance(each, ast.Constant) and each not in documented
            ]
            by_path += [
                f"{file.name}: {each.value}" for each in strings if re.search(r"docs/.*\.md", str(each.value))
            ]
    assert (by_path, unknown) == ([], [])


def test_every_test_named_on_a_page_exists() -> None:
    tests = {file.stem for file in (ROOT / "tests").rglob("test_*.py")}
    wrong = [
        f"{identify(page)}: {name}"
        for page in (*PAGES, *OUTSIDE)
        for name in re.findall(r"\btest_\w+", page.read_text(encoding="utf-8"))
        if name not in tests
    ]
    assert not wrong


def examples(*languages: str) -> list[Block]:
    """Of the pages that people write."""
    pages = (*WRITTEN, *OUTSIDE)
    return [block for page in pages for block in blocks(page) if block.language in languages]


def test_commands_and_flags_in_examples_exist() -> None:
    wrong = []
    for block in examples("bash"):
        lines = [line for line in shell_commands(block.text) if re.match(r"(\w+=\S+ )*lmi ", line)]
        wrong += [
            f"{identify(block.page)}: {line}: {problem}" for line in lines if (problem := misused(line))
        ]
    assert not wrong


def misused(line: str) -> str:
    """The part of this line that `lmi` would not understand; empty if there is none."""
    words = shlex.split(re.split(r"\s[|>&]|;;", line)[0], comments=True)
    words = words[words.index("lmi") + 1 :]
    command: click.Command = lmi
    context = click.Context(lmi, info_name="lmi", **lmi.context_settings)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return f"no such command: {words[0]}"
        command, words = found, words[1:]
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [
        word for word in words if word.startswith("-") and word != "-" and word.partition("=")[0] not in known
    ]
    return f"unknown: {unknown}" if unknown else ""


def test_recipes_in_examples_are_valid() -> None:
    wrong = []
    for block in examples("yaml"):
        if "runs-on" in block.text:
            continue
        given = yaml.safe_load(block.text) or {}
        missing = {key: value for key, value in BASE.items() if key not in given}
        if given.get("endpoint", {}).get("target") == "local":
            missing.pop("instance_type", None)
        try:
            parse(block.text + yaml.safe_dump(missing) if missing else block.text, block.page.name)
        except RecipeError as error:
            wrong += [f"{identify(block.page)}: {detail}" for detail in error.details]
    assert not wrong


def test_python_and_json_examples_are_well_formed() -> None:
    wrong = []
    for block in examples("python", "json"):
        try:
            ast.parse(block.text) if block.language == "python" else json.loads(block.text)
        except (SyntaxError, ValueError) as error:
            wrong.append(f"{identify(block.page)}: {error}: {block.text[:80]}")
    assert not wrong


def test_block_marks_are_valid() -> None:
    for page in (*PAGES, *OUTSIDE):
        before = ""
        for block in blocks(page):
            assert block.kind in {"", "run", "file", "output"} or block.mark.startswith("/"), (
                page,
                block.mark,
            )
            assert block.kind != "output" or before == "run", f"{page}: an output without a command"
            before = block.kind


def test_troubleshooting_messages_are_those_of_the_program() -> None:
    """Word for word, except for `...`."""
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    first = re.findall(r"^\| ([^|]*`[^|]*) \|", page, re.M)
    fragments = [
        part.strip(" ,")
        for cell in first
        for quoted in re.findall(r"`([^`]+)`", cell)
        for part in quoted.split("...")
        if part.strip(" ,")
    ]
    assert len(fragments) > 20
    modules = {
        text: words(text) for file in (ROOT / "src").rglob("*.py") for text in [file.read_text("utf-8")]
    }
    assert [part for part in fragments if not has_text(modules, part)] == []


def has_text(modules: dict[str, set[str]], part: str) -> bool:
    """Only modules that have all of its words are parsed."""
    possible = [module for module, own in modules.items() if words(part) <= own]
    return any(part in text for module in possible for text in constants(module))


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-zA-Z]{3,}", text))


@cache
def constants(module: str) -> list[str]:
    """The texts of a module; a placeholder is a NUL."""
    found = []
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "\0" for part in node.values]
            found.append("".join(str(part) for part in parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found
