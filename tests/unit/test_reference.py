"""The generated pages match the program."""

from __future__ import annotations

import re
from pathlib import Path

from lmi_deploy.cli.command_group import COMMANDS
from lmi_deploy.errors import EXIT_CODES
from tools.reference import DOCS, pages

ROOT = Path(__file__).resolve().parents[2]


def test_generated_pages_are_up_to_date() -> None:
    """One pass over all pages: many are made from the same tables."""
    written = {name: (DOCS / name, page) for name, page in pages().items()}
    assert len(written) > 60
    outdated = [
        name
        for name, (path, page) in written.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != page
    ]
    assert not outdated, f"run `make reference`: {outdated}"


def test_readme_names_only_existing_commands() -> None:
    named = set(re.findall(r"`lmi ([a-z]+)", (ROOT / "README.md").read_text()))
    assert named <= set(COMMANDS), named - set(COMMANDS)


def test_every_exit_code_is_documented_and_linked_from_the_readme() -> None:
    page = (DOCS / "reference" / "exit-codes.md").read_text()
    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in page
    assert "(docs/reference/exit-codes.md)" in (ROOT / "README.md").read_text()


def test_readme_has_at_most_120_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_every_command_has_json_output() -> None:
    page = (DOCS / "reference" / "cli.md").read_text()
    sections = [part for part in page.split("\n## ")[1:] if "COMMAND [ARGS]" not in part]
    assert len(sections) > 12
    assert [part.split("\n")[0] for part in sections if "--json" not in part] == []


def test_repository_reads_nothing_outside_itself() -> None:
    marks = re.compile(r"\.\./shared|/work/|/root/")
    local = Path(__file__).resolve()
    wrong = [
        str(path.relative_to(ROOT))
        for folder in ("src", "tests", "tools", "templates", "recipes", "benchmarks", "docs", ".ci")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in {".py", ".md", ".yaml", ".json", ".txt", ".jinja", ""}
        and path != local
        and "__pycache__" not in path.parts
        and marks.search(path.read_text(encoding="utf-8", errors="replace"))
    ]  # fmt: skip
    assert not wrong, wrong
