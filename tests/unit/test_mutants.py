"""tools/mutants: each known fault can still be put into the code, so that a run of them measures the tests of now."""

from __future__ import annotations

import ast

from tools.mutants.mutant import ROOT, read_mutants


def test_every_mutant_changes_the_code_of_today() -> None:
    mutants = read_mutants()
    assert len({mutant.id for mutant in mutants}) == len(mutants) >= 200
    for mutant in mutants:
        text = (ROOT / mutant.file).read_text("utf-8")
        changed = mutant.applied(text)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text)), mutant.id
