"""Which files of a folder belong to a build: the rules of .dockerignore (docs.docker.com/build/concepts/context), as
moby's `patternmatcher` reads them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    pattern: re.Pattern[str]
    keeps: bool
    """`!pattern`: an exception from the rules before it."""


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    rules: tuple[IgnoreRule, ...] = ()

    @property
    def has_exceptions(self) -> bool:
        """Then a file below an ignored folder may belong to the build."""
        return any(rule.keeps for rule in self.rules)

    def ignores(self, path: str) -> bool:
        """The last rule that matches the path, or a folder above it, counts."""
        above = [path, *_folders_above(path)]
        ignored = False
        for rule in self.rules:
            if ignored == rule.keeps and any(rule.pattern.fullmatch(each) for each in above):
                ignored = not rule.keeps
        return ignored


def parse_ignore_rules(text: str) -> IgnoreRules:
    """ValueError, with the line, for a pattern that docker refuses."""
    return IgnoreRules(tuple(_rules(text.removeprefix("\ufeff"))))


def _rules(text: str) -> Iterator[IgnoreRule]:
    for number, line in enumerate(text.splitlines(), 1):
        pattern = line.strip()
        if line.startswith("#") or not pattern:
            continue
        keeps = pattern.startswith("!")
        pattern = posixpath.normpath(pattern.removeprefix("!").strip() or ".").lstrip("/")
        if pattern == ".":
            continue
        try:
            yield IgnoreRule(re.compile(_expression(pattern), re.DOTALL), keeps)
        except re.error as reason:
            raise ValueError(f"line {number}: {line.strip()}: {reason}") from None


def _folders_above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _expression(pattern: str) -> str:
    """Go's filepath.Match, and `**` for any number of folders."""
    parts, at = [], 0
    while at < len(pattern):
        if pattern.startswith("**", at):
            at += 2
            has_slash = pattern.startswith("/", at)
            at += has_slash
            parts.append(".*" if at >= len(pattern) else "(?:.*/)?")
            continue
        char = pattern[at]
        end = pattern.find("]", at + 2)
        if char == "[" and end > 0:
            parts.append(pattern[at : end + 1])
            at = end + 1
            continue
        if char == "\\" and at + 1 < len(pattern):
            at, char = at + 1, pattern[at + 1]
            parts.append(re.escape(char))
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char))
        at += 1
    return "".join(parts)
