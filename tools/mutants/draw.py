"""Draw mutants with the operators of cosmic-ray: `python draw.py NUMBER SEED > drawn.yaml`.

Runs in an environment of its own: `uv run --no-project --with-requirements requirements/mutants.txt python
tools/mutants/draw.py 100 1`. Types, decorators and docstrings are left alone: they change nothing that runs.
"""

from __future__ import annotations

import ast
import difflib
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "lmi_deploy"
AREAS = {
    "decide": ("planning/*.py", "recipe/checks/*.py", "sizing/*.py", "targets/sagemaker/validate/*.py"),
    "plan": ("targets/sagemaker/plan/*.py", "targets/local/*.py", "targets/sagemaker/*.py"),
    "perform": ("targets/sagemaker/perform/*.py", "workflows/*.py"),
    "lock": ("aws/lock/*.py", "state/*.py"),
    "weights": ("weights/*.py", "sources/*.py", "aws/s3/*.py"),
    "server": ("server/**/*.py",),
    "proxy": ("proxy/*.py", "inference_client/*.py"),
    "bench": ("bench/*.py",),
}
KINDS = (
    *("AddNot", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    *("NumberReplacer", "ZeroIterationForLoop", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    *("ExceptionReplacer", "ReplaceComparisonOperator", "ReplaceUnaryOperator", "ReplaceBinaryOperator_Sub"),
    *("ReplaceBinaryOperator_Add", "ReplaceBinaryOperator_Mul", "ReplaceBinaryOperator_Div"),
)


def drawn(number: int, seed: int) -> Iterator[dict[str, str]]:
    """As many of each area; of an area, any file, then any kind, then any place."""
    chance = random.Random(seed)
    operators = [name for name in operator_names() if _serves(name.split("/")[1])]
    changed: set[tuple[str, str]] = set()
    for position in range(number):
        area = [*AREAS][position % len(AREAS)]
        files = sorted({path for pattern in AREAS[area] for path in SOURCE.glob(pattern)})
        mutant = None
        while mutant is None or (mutant["file"], mutant["old"]) in changed:
            mutant = _one(chance, chance.choice(files), operators)
        changed.add((mutant["file"], mutant["old"]))
        yield {"id": f"drawn-{area}-{position}", **mutant}


def _serves(name: str) -> bool:
    """Identity instead of equality is often the same in CPython, and always a warning."""
    identity = name.endswith(("_Is", "_IsNot")) and "Operator_Is" not in name
    return name.startswith(KINDS) and not identity


def _one(chance: random.Random, path: Path, operators: list[str]) -> dict[str, str] | None:
    text = path.read_text("utf-8")
    name = chance.choice(operators)
    operator = get_operator(name)()
    places = sum(len(list(operator.mutation_positions(node))) for node in ast_nodes(get_ast(text)))
    mutated = mutate_code(text, operator, chance.randrange(places)) if places else None
    try:
        if mutated is None or _runs_as(text) == _runs_as(mutated):
            return None
    except SyntaxError:  # the star of keyword arguments is a binary operator to parso
        return None
    old, new = _changed_lines(text, mutated)
    file = str(path.relative_to(ROOT))
    return {"file": file, "old": old, "new": new, "breaks": name.split("/")[1], "source": "drawn"}


def _runs_as(text: str) -> str:
    """The program without what is not evaluated: annotations."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                setattr(node, name, ast.Constant(None))
    return ast.dump(tree)


def _changed_lines(text: str, mutated: str) -> tuple[str, str]:
    """The lines that differ, with as many before them as make them unique in the file."""
    before, after = text.splitlines(keepends=True), mutated.splitlines(keepends=True)
    changes = [
        code for code in difflib.SequenceMatcher(None, before, after).get_opcodes() if code[0] != "equal"
    ]
    first, last = changes[0], changes[-1]
    for start in range(first[1], -1, -1):
        old = "".join(before[start : last[2]])
        if text.count(old) == 1:
            return old, "".join([*before[start : first[1]], *after[first[3] : last[4]]])
    raise AssertionError("the whole file occurs once")


if __name__ == "__main__":
    mutants = list(drawn(int(sys.argv[1]), int(sys.argv[2])))
    yaml.safe_dump(mutants, sys.stdout, width=10_000, allow_unicode=True, sort_keys=False)
