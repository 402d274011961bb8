"""A typo in a word of the recipe's own lists gets a suggestion."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import get_args

import pytest

from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName, TargetName
from lmi_deploy.domain.recipe_keys import Engine, Task
from lmi_deploy.recipe.name_suggestions import suggestion_text

LISTS = (
    *(get_args(kind) for kind in (Engine, RuntimeName, TargetName, Task)),
    *(("stream", "snapshot", "job"), ("auto", "own", "s5cmd", "obstore"), ("s3", "mount", "artifact")),
)


def _slips(word: str) -> Iterator[str]:
    for n in range(1, len(word) - 1):
        yield word[:n] + word[n + 1] + word[n] + word[n + 2 :]
        yield word[:n] + word[n + 1 :]
        yield word[: n + 1] + word[n:]


@pytest.mark.parametrize(
    ("slip", "word"), [("costum", "custom"), ("onw", "own"), ("VLLM", "vllm"), ("deepsped", "deepspeed")]
)
def test_typical_typo_gets_the_right_suggestion(slip: str, word: str) -> None:
    known = next(names for names in LISTS if word in names)
    assert suggestion_text(slip, known) == f"did you mean {word}?"


@pytest.mark.parametrize("known", LISTS, ids=lambda names: names[0])
def test_every_single_typo_gets_a_suggestion(known: tuple[str, ...]) -> None:
    slips = chain.from_iterable(_slips(word) for word in known if len(word) > 3)
    missed = [slip for slip in slips if slip not in known and not suggestion_text(slip, known)]
    assert missed == []


def test_distant_word_gets_no_suggestion() -> None:
    assert suggestion_text("ollama", get_args(Engine)) == ""
