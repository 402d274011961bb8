"""What `lmi validate` found, in the formats that CI systems show beside the lines of a change. `root` is the folder of
the repository, to which they want the paths.

GitHub: the workflow commands of "Workflow commands for GitHub Actions" (`::error file=,line=,col=,title=::`) and their
escapes. GitLab: "Code Quality", the report format. JUnit: the elements that GitLab, Jenkins and CodeBuild read.
SARIF: OASIS, "Static Analysis Results Interchange Format 2.1.0".
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from lmi_deploy import __version__
from lmi_deploy.errors.recipe_problem import Problem

Outcomes = Mapping[str, Sequence[Problem]]
"""The mistakes of each recipe that was checked; none if it is valid."""


def github(outcomes: Outcomes, root: Path) -> str:
    lines = []
    for path, problem in _places(outcomes, root):
        fields = {
            "file": path,
            "line": max(1, problem.line),
            "col": _column(problem),
            "title": "lmi validate",
        }
        properties = ",".join(f"{name}={_property(str(value))}" for name, value in fields.items())
        lines.append(f"::error {properties}::{_command_text(_message(problem))}")
    return "\n".join(lines)


def gitlab(outcomes: Outcomes, root: Path) -> str:
    """A fingerprint has no line, so that GitLab knows the mistake again when lines above it change."""
    seen: Counter[str] = Counter()
    entries = []
    for path, problem in _places(outcomes, root):
        identity = "\0".join((path, problem.key, problem.what))
        seen[identity] += 1
        entries.append(
            {
                "description": _message(problem),
                "check_name": "lmi-recipe",
                "fingerprint": hashlib.sha256(f"{identity}\0{seen[identity]}".encode()).hexdigest(),
                "severity": "critical",
                "location": {"path": path, "lines": {"begin": max(1, problem.line)}},
            }
        )
    return json.dumps(entries, indent=2, ensure_ascii=False)


def junit(outcomes: Outcomes, root: Path) -> str:
    """One test case for each recipe."""
    failed = sum(bool(problems) for problems in outcomes.values())
    counts = f'tests="{len(outcomes)}" failures="{failed}" errors="0"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {counts}>"]
    lines.append(f'  <testsuite name="lmi validate" {counts}>')
    for recipe, problems in outcomes.items():
        name = quoteattr(_xml_text(_relative(recipe, root)))
        lines.append(f'    <testcase classname="lmi validate" name={name} file={name}>')
        if problems:
            summary = quoteattr(_xml_text(_message(problems[0])))
            text = escape(_xml_text("\n".join(map(str, problems))))
            lines.append(f'      <failure type="recipe" message={summary}>{text}</failure>')
        lines.append("    </testcase>")
    return "\n".join((*lines, "  </testsuite>", "</testsuites>"))


def sarif(outcomes: Outcomes, root: Path) -> str:
    driver = {
        "name": "lmi",
        "version": __version__,
        "rules": [{"id": "recipe", "shortDescription": {"text": "A mistake in a recipe of lmi"}}],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(path, problem) for path, problem in _places(outcomes, root)],
    }
    document = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=False)


def _sarif_result(path: str, problem: Problem) -> dict[str, Any]:
    from urllib.parse import quote

    region = {"startLine": max(1, problem.line), "startColumn": _column(problem)}
    place = {"artifactLocation": {"uri": quote(path)}, "region": region}
    return {
        "ruleId": "recipe",
        "level": "error",
        "message": {"text": _message(problem)},
        "locations": [{"physicalLocation": place}],
    }


def _places(outcomes: Outcomes, root: Path) -> Iterator[tuple[str, Problem]]:
    """Every mistake with its file; a mistake of `--set` is shown at the first line of its recipe."""
    for recipe, problems in outcomes.items():
        for problem in problems:
            yield _relative(problem.origin if problem.line else recipe, root), problem


def _relative(path: str, root: Path) -> str:
    """To the folder of the repository, whatever the working directory; of a file outside of it as it was given."""
    found, real = Path(path).absolute(), Path(path).resolve()
    for place, folder in ((real, root.resolve()), (found, root.absolute())):
        if place.is_relative_to(folder):
            return place.relative_to(folder).as_posix()
    return posixpath.normpath(path)


def _column(problem: Problem) -> int:
    return max(1, problem.column) if problem.line else 1


def _message(problem: Problem) -> str:
    source = "" if problem.line else f"{problem.origin}: "
    key = f"{problem.key}: " if problem.key else ""
    return f"{source}{key}{problem.what}{problem.hint and f', {problem.hint}'}"


def _command_text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _command_text(text).replace(":", "%3A").replace(",", "%2C")


def _xml_text(text: str) -> str:
    """XML 1.0 has no control characters but these three."""
    return "".join(c if c >= " " or c in "\t\n\r" else "\N{REPLACEMENT CHARACTER}" for c in text)


FORMATS = {"github": github, "gitlab": gitlab, "junit": junit, "sarif": sarif}
