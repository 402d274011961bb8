"""Throw generated, mutated and hostile recipes at `parse`: nothing but RecipeError may come out.

    python tools/fuzz.py --cases 100000 --seed 1 --json out.json

Says how many were good and refused, and the worst case in time and in memory, which `--keep FOLDER` writes out.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmi_deploy.composition.targets import recipe_issues
from lmi_deploy.domain.java_properties import parse_properties, write_properties
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import RecipeError
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.model.field_types import KeyGroup
from lmi_deploy.recipe.model.key_readers import RECIPE
from lmi_deploy.recipe.parse import parse
from lmi_deploy.recipe.reader import Purpose

BASE = "name: q\nmodel_id: a/b\nengine: accelerate\nendpoint: {target: local}\n"
PURPOSE = Purpose(target_issues=recipe_issues)
MEGABYTE = 1 << 20
PARTS = (
    "&a", "*a", "<<: *a", "!!str", "!x", "---", "...", "? ", "- ", ": ", "{", "}", "[", "]", ",", "#", "|", ">", "'",
    '"', "\t", "\\", "%YAML 1.2", "\u2028", "\ufeff", "\x00", "\x7f", "\ud800", "é", "\U0001f600", "~", "null", "012",
    "1.10", "yes", "auto", "9" * 30, "x-", "overlays", "options", "endpoint", "target", "{{weights}}", "@", "`", "=",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    kind: str
    text: bytes | str
    overlay: str | None = None
    sets: tuple[str, ...] = ()


@dataclass
class Report:
    cases: int = 0
    good: int = 0
    refused: int = 0
    slowest_ms: float = 0.0
    slowest: Case | None = None
    biggest_mb: float = 0.0
    biggest: Case | None = None
    seconds: float = 0.0
    kinds: dict[str, int] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "cases": self.cases,
            "good": self.good,
            "refused": self.refused,
            "seconds": round(self.seconds, 1),
            "worst_ms": round(self.slowest_ms, 1),
            "worst_ms_case": _described(self.slowest),
            "peak_memory_mb": round(_rss(), 1),
            "worst_growth_mb": round(self.biggest_mb, 1),
            "worst_growth_case": _described(self.biggest),
            "kinds": self.kinds,
        }


def run(cases: int, seed: int) -> Report:
    """Parse so many cases; whatever is not a RecipeError, or is one that says nothing, is raised with its case."""
    rng = random.Random(seed)
    report = Report()
    started = time.perf_counter()
    parse(BASE + "revision: x\n", "warm-up", sets=["timeouts.predict=60"], purpose=PURPOSE)
    for _ in range(cases):
        case = rng.choices(MAKERS, WEIGHTS)[0](rng)
        _one(case, report)
    report.seconds = time.perf_counter() - started
    return report


def _one(case: Case, report: Report) -> None:
    report.cases += 1
    report.kinds[case.kind] = report.kinds.get(case.kind, 0) + 1
    memory = _rss()
    outcome, spent = _timed(case)
    grown = _rss() - memory
    if spent > report.slowest_ms:
        # Once more: the first time may have been somebody else's on a busy machine.
        spent = min(spent, _timed(case)[1], _timed(case)[1])
    if isinstance(outcome, Recipe):
        report.good += 1
        _carries(outcome)
    else:
        report.refused += 1
        _speaks(outcome)
    if spent > report.slowest_ms:
        report.slowest_ms, report.slowest = spent, case
    if grown > report.biggest_mb:
        report.biggest_mb, report.biggest = grown, case


def _timed(case: Case) -> tuple[Recipe | tuple[Problem, ...], float]:
    start = time.process_time()
    outcome = _outcome(case)
    return outcome, (time.process_time() - start) * 1000


def _outcome(case: Case) -> Recipe | tuple[Problem, ...]:
    try:
        return parse(case.text, "r.yaml", overlay=case.overlay, sets=case.sets, purpose=PURPOSE)
    except RecipeError as error:
        return error.problems
    except BaseException as error:
        error.add_note(f"case: {case!r}"[:2000])
        raise


def _carries(recipe: Recipe) -> None:
    """What goes to serving.properties comes back."""
    for pairs in (recipe.options, recipe.properties):
        assert tuple(parse_properties(write_properties(pairs)).items()) == pairs


def _speaks(problems: tuple[Problem, ...]) -> None:
    """Every refusal has a place and words that fit on one line of a terminal."""
    assert problems
    for problem in problems:
        assert problem.what
        assert problem.column >= 1
        assert problem.line >= 1 or problem.origin.startswith("--set:")
        # A key is shown as it was written, and a hostile one may hold a line break.
        assert len(str(problem)) < 2000, str(problem)


def _rss() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (MEGABYTE if sys.platform == "darwin" else 1024)


def _described(case: Case | None) -> str:
    return "" if case is None else f"{case.kind}, {len(case.text)} characters: {case.text[:60]!r}"


def _examples(group: KeyGroup, rng: random.Random, depth: int = 0) -> Iterator[str]:
    """Some keys of the declaration with their own examples, as block YAML."""
    for key in group.keys:
        if rng.random() < 0.6:
            continue
        if isinstance(key.shape, KeyGroup):
            yield "  " * depth + f"{key.name}:"
            yield from _examples(key.shape, rng, depth + 1)
        else:
            yield "  " * depth + f"{key.name}: {key.example}"


def generated(rng: random.Random) -> Case:
    """A recipe from the declaration's own examples."""
    lines = [
        line for line in _examples(RECIPE, rng) if not line.startswith(("name:", "model_id:", "engine:"))
    ]
    overlay = rng.choice([None, None, "prod", "dev", "x" * rng.randrange(60)])
    text = (
        "name: q\nmodel_id: a/b\nengine: accelerate\n"
        + "\n".join(lines)
        + "\noverlays: {prod: {revision: x}}\n"
    )
    return Case("generated", text, overlay, tuple(_assignment(rng) for _ in range(rng.randrange(3))))


def plain(rng: random.Random) -> Case:
    """A recipe that is good, with values that are hard to carry."""
    pairs = ", ".join(f"k{i}: {_quoted(_words(rng))}" for i in range(rng.randrange(8)))
    return Case(
        "plain", BASE + "handler: {file: model.py}\noptions: {" + pairs + "}\nproperties: {" + pairs + "}\n"
    )


def mutated(rng: random.Random) -> Case:
    """A recipe with a few characters changed, doubled, dropped or swapped for hostile ones."""
    text = rng.choice((generated, plain))(rng).text
    assert isinstance(text, str)
    for _ in range(rng.randrange(1, 8)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.randrange(6))
        text = text[:start] + rng.choice((*PARTS, text[start:end] * 2, "")) + text[end:]
    return Case("mutated", text)


def flipped(rng: random.Random) -> Case:
    """A recipe with bytes overwritten."""
    raw = bytearray(str(generated(rng).text).encode("utf-8", "surrogatepass"))
    for _ in range(rng.randrange(1, 6)):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    return Case("flipped", bytes(raw))


def noise(rng: random.Random) -> Case:
    """Pieces of YAML in any order."""
    return Case("noise", "".join(rng.choice((*PARTS, "\n", " ", "a")) for _ in range(rng.randrange(200))))


def soup(rng: random.Random) -> Case:
    """Bytes."""
    return Case("soup", rng.randbytes(rng.randrange(400)))


def tower(rng: random.Random) -> Case:
    """Nesting, from harmless to absurd."""
    height = rng.choice((5, 49, 50, 51, 60, 1000, 50_000))
    head = rng.choice((BASE + "x-a: ", "options: ", ""))
    return Case(
        "tower", head + rng.choice(("[", "{a: ", "- ", "? ", "[{a: ", "!!map {a: &x ", "[*x, ")) * height
    )


def wide(rng: random.Random) -> Case:
    """Many keys, many items, many mistakes."""
    count = rng.choice((10, 99, 500, 1900, 2100))
    one = rng.choice(("model_idd{i}: 1\n", "a: 1\n", "- {i}\n", "overlays{i}: {{a: 1}}\n", "? [{i}]\n: 1\n"))
    inside = rng.choice(
        (
            "",
            "options: {{{k}}}\n",
            "instance_type: [{k}]\n",
            "overlays: {{{k}}}\n",
            "files: {{allow: [{k}]}}\n",
        )
    )
    if inside:
        return Case("wide", BASE + inside.format(k=", ".join(f"ml.g5.{i}xlarg: 1" for i in range(count))))
    return Case("wide", "".join(one.format(i=i) for i in range(count)))


def huge(rng: random.Random) -> Case:
    """Up to a mebibyte of one thing."""
    head, one = rng.choice(
        (
            ("", "#"), ("", "\n"), ("", "[1,"), ("", "a\n"), ("", "a: b\n"), (BASE + "revision: ", "x"),
            (BASE + "name: ", "a-"), (BASE + 'revision: "', "\\u0041"), (BASE + "probe:\n  prompt: |\n", "    a\n"),
            (BASE + "tensor_parallel_degree: ", "9"), ("", "- "), ("", ":"), ("", "'"), ("a: ", "!"), ("a: &", "a"),
            (BASE + "files: {allow: [", "a,"), ("a:\n", "\t"), ("", "é"), ("\x01", "\n"), ("", "{a: "), ("? ", "a "),
        )
    )  # fmt: skip
    size = rng.choice((1 << 12, 1 << 16, MEGABYTE, MEGABYTE + 1))
    return Case("huge", (head + one * (size // len(one.encode())))[:size].encode()[:size])


def _assignment(rng: random.Random) -> str:
    key = rng.choice(
        (
            "endpoint.port",
            "options.dtype",
            "x-y",
            "timeouts.predict",
            "",
            "a.b.c",
            "endpoint",
            "overlays.a",
            "name.x",
        )
    )
    return f"{key}{rng.choice(('=', '=', '=', ''))}{rng.choice((*PARTS, '8080', '[a, b]', '{a: 1}', ''))}"


def _quoted(text: str) -> str:
    return '"' + "".join(f"\\U{ord(char):08x}" for char in text) + '"'


def _words(rng: random.Random) -> str:
    letters = "ab 0=:#!\\\t\n\r\f\x01\x7f\x85\xa0é\u2028\ufeff\U0001f600"
    return "".join(rng.choice(letters) for _ in range(rng.randrange(12)))


MAKERS: tuple[Callable[[random.Random], Case], ...] = (
    generated, plain, mutated, flipped, noise, soup, tower, wide, huge,
)  # fmt: skip
WEIGHTS = (20, 10, 30, 15, 15, 5, 2, 2, 0.5)


def main() -> None:
    """Parse the command line, run, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--json", type=Path)
    options.add_argument("--keep", type=Path, help="folder for the worst cases")
    given = options.parse_args()
    report = run(given.cases, given.seed)
    plain_report = {"seed": given.seed, **report.plain()}
    print(json.dumps(plain_report, indent=1))
    if given.json:
        given.json.write_text(json.dumps(plain_report, indent=1) + "\n", encoding="utf-8")
    if given.keep:
        _keep(given.keep, report)


def _keep(folder: Path, report: Report) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, case in (("slowest", report.slowest), ("biggest", report.biggest)):
        if case is not None:
            raw = case.text if isinstance(case.text, bytes) else case.text.encode("utf-8", "surrogatepass")
            (folder / f"{name}.yaml").write_bytes(raw)


if __name__ == "__main__":
    main()
