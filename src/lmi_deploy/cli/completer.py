"""The answer to a key press in a shell: what may stand at the cursor, from generated tables and from this machine.

It imports no click and no command, and sends no request. `lmi completion` prints the scripts that call it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lmi_deploy.cli import COMPLETION

FILES: Final = ("file", "")
FOLDERS: Final = ("dir", "")
_MOST_FILES: Final = 500
_SUFFIXES: Final = (".yaml", ".yml")
_HEAD: Final = 65_536
Candidate = tuple[str, str]
"""A word with its meaning; or FILES or FOLDERS: the shell completes paths."""


def answer(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Print a line for each candidate: kind, word and meaning, between tabs. No output on any trouble: an error message
    in the middle of a command line does not help.
    """
    try:
        found = [*candidates(words, environ)]
    except (OSError, ValueError, LookupError):
        return
    cut = _cut_of_bash(words[-1] if words else "", environ)
    lines = []
    for word, meaning in found:
        if (word, meaning) in (FILES, FOLDERS):
            lines.append(f"{word}\t\t")
        else:
            lines.append(f"plain\t{word[cut:]}\t{' '.join(meaning.split())}")
    sys.stdout.write("".join(line + "\n" for line in lines))


def candidates(words: Sequence[str], environ: Mapping[str, str]) -> Iterator[Candidate]:
    """`words`: those after `lmi` up to the cursor; the last one is incomplete, and may be empty."""
    *before, current = words or [""]
    state = _Line(_table("completion"), before)
    if state.pending:
        yield from _starting(_values(state.pending, state, current, environ), current)
    elif current.startswith("--") and "=" in current:
        name, _, part = current.partition("=")
        takes = state.command.get("options", {}).get(name, {}).get("takes", "")
        for each in _starting(_values(takes, state, part, environ), part):
            yield each if each in (FILES, FOLDERS) else (f"{name}={each[0]}", each[1])
    elif current.startswith("-"):
        yield from _starting(state.options(), current)
    elif "commands" in state.command:
        inner = state.command["commands"]
        yield from _starting(((name, each["help"]) for name, each in inner.items()), current)
    else:
        yield from _starting(_values(state.argument(), state, current, environ), current)


class _Line:
    """What the words before the cursor say: the command, and whether an option waits for its value."""

    def __init__(self, table: Mapping[str, Any], before: Sequence[str]) -> None:
        self.table = table
        self.command: Mapping[str, Any] = table
        self.arguments: list[str] = []
        self.used: set[str] = set()
        self.pending: Any = None
        for word in before:
            self._read(word)

    def _read(self, word: str) -> None:
        if self.pending is not None:
            self.pending = None
        elif word.startswith("-") and word != "-":
            name, equals, _ = word.partition("=")
            self.used.add(name)
            option = self.command.get("options", {}).get(name, {})
            self.pending = option["takes"] if "takes" in option and not equals else None
            # A value without known words: nothing is offered, rather than something wrong.
            self.pending = "any" if self.pending == "" else self.pending
        elif word in self.command.get("commands", {}):
            self.command = self.command["commands"][word]
        else:
            self.arguments.append(word)

    def options(self) -> Iterator[Candidate]:
        """The long ones; one that was given is offered again only if it can be repeated."""
        for name, option in self.command.get("options", {}).items():
            if name.startswith("--") and (name not in self.used or option.get("many")):
                yield name, option["help"]

    def argument(self) -> Any:
        """What the next argument takes."""
        declared = self.command.get("arguments", [])
        for place, argument in enumerate(declared):
            if argument["many"] or place >= len(self.arguments):
                return argument["takes"] or "any"
        return "any"


def _values(takes: Any, line: _Line, current: str, environ: Mapping[str, str]) -> Iterable[Candidate]:
    """The words of `takes`, as the table names it: a list of words, or one of these kinds."""
    if isinstance(takes, list):
        return ((word, "") for word in takes)
    kinds: dict[str, Callable[[], Iterable[Candidate]]] = {
        "recipe": lambda: (*_recipe_words(current), FILES),
        "name": lambda: (*_deployments(environ), *_recipe_words(current)),
        "key": lambda: ((key, "recipe key") for key in line.table["keys"]),
        "page": lambda: ((page, "") for page in line.table["pages"]),
        "set": lambda: _set_words(line, current),
        "region": lambda: ((region, "") for region in line.table["regions"]),
        "instance": lambda: ((instance, "") for instance in line.table["instances"]),
        "file": lambda: (FILES,),
        "dir": lambda: (FOLDERS,),
    }
    return kinds.get(takes, tuple)()


def _deployments(environ: Mapping[str, str]) -> list[Candidate]:
    from lmi_deploy.composition.user_folders import known_names

    return [(name, "deployment") for name in known_names(environ)]


def _recipe_words(current: str) -> list[Candidate]:
    return [(name, "recipe") for name in _recipes(current)]


def _set_words(line: _Line, current: str) -> Iterator[Candidate]:
    """Keys up to their `=`, then the words of the key's enumeration."""
    key, equals, _ = current.partition("=")
    if key.startswith("options."):
        yield from _option_words(line, key.removeprefix("options."), with_values=bool(equals))
    elif equals:
        words = line.table["keys"].get(key, ())
        listed = line.table["instances"] if list(words) == ["@instances"] else words
        yield from ((f"{key}={word}", "") for word in listed)
    else:
        for name in line.table["keys"]:
            yield ("options." if name == "options" else f"{name}="), ""


def _option_words(line: _Line, name: str, *, with_values: bool) -> Iterator[Candidate]:
    """Of the engine that the recipe names, else of all."""
    table = _table("completion_options")
    engine = next(filter(None, map(_engine_of, line.arguments or _recipes(""))), "")
    chosen = {engine: table[engine]} if engine in table else table
    known: dict[str, list[str]] = {}
    for names in chosen.values():
        for each, words in names.items():
            known.setdefault(each, []).extend(word for word in words if word not in known.get(each, ()))
    if with_values:
        yield from ((f"options.{name}={word}", "") for word in known.get(name, ()))
    else:
        yield from ((f"options.{each}=", "") for each in sorted(known))


def _engine_of(recipe: str) -> str:
    """The text after `engine:` at the top of the file; recipes that name none are vLLM's."""
    try:
        with open(recipe, encoding="utf-8") as file:
            lines = file.read(_HEAD).splitlines()
    except (OSError, ValueError):
        return ""
    named = [
        line.partition(":")[2].split("#")[0].strip(" \"'") for line in lines if line.startswith("engine:")
    ]
    return named[0] if named else "vllm"


def _recipes(current: str) -> list[str]:
    """Recipes in the folder that is being written."""
    folder, slash, _ = current.rpartition("/")
    found = []
    try:
        with os.scandir((folder or "/") if slash else ".") as entries:
            for place, entry in enumerate(entries):
                if place >= _MOST_FILES:
                    break
                if entry.name.endswith(_SUFFIXES) and _is_recipe(entry.path):
                    found.append(f"{folder}{slash}{entry.name}")
    except OSError:
        return []
    return sorted(found)


def _is_recipe(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"model_id:" in file.read(_HEAD)
    except OSError:
        return False


def _starting(found: Iterable[Candidate], current: str) -> Iterator[Candidate]:
    yield from (each for each in found if each in (FILES, FOLDERS) or each[0].startswith(current))


def _cut_of_bash(current: str, environ: Mapping[str, str]) -> int:
    """Characters that bash has already put before its own word: it breaks words at `=` and `:`."""
    if environ.get(COMPLETION) != "bash":
        return 0
    breaks = [mark for mark in "=:" if mark in environ.get("COMP_WORDBREAKS", "=:")]
    return max((current.rfind(mark) + 1 for mark in breaks), default=0)


def _table(name: str) -> Any:
    return json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8"))
