"""Prompts of an exact number of tokens, from a seed: random words, and shared prefixes if asked for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.domain.number_text import counted
from lmi_deploy.errors import UsageRefused

MOST_PROMPTS: Final = 1000
MOST_TOKENS: Final = 4_000_000
"""In all prompts of a run: a tokenizer counts about a million a second."""
_FEW_WORDS: Final = 16
_ROUNDS: Final = 12
_WORD: Final = "the"


class Tokenizer(Protocol):
    """Of the model that is measured."""

    name: str

    def count(self, texts: Sequence[str]) -> list[int]: ...

    def words(self) -> list[str]: ...

    def letters(self) -> list[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptShape:
    """`tokens` of each prompt's own; before them `prefix_tokens` that are the same in all prompts of one of `prefixes`
    groups.
    """

    tokens: int
    prefix_tokens: int = 0
    prefixes: int = 1

    @property
    def total(self) -> int:
        return self.prefix_tokens + self.tokens

    @property
    def words(self) -> str:
        text = f"{counted(self.total, 'token')}"
        if self.prefix_tokens:
            prefixes = counted(self.prefixes, "shared prefix", "shared prefixes")
            text += f", the first {self.prefix_tokens} from {prefixes}"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticPrompts:
    """`source` says in a report what they are."""

    requests: tuple[BenchRequest, ...]
    source: str


def synthetic_prompts(
    shape: PromptShape, tokenizer: Tokenizer, *, seed: int, most: int = MOST_PROMPTS
) -> SyntheticPrompts:
    """At most `most`, and fewer if they are very long. UsageRefused if the tokenizer allows no text of that length."""
    count = prompt_count(shape, most)
    chance = random.Random(f"{seed} {shape.tokens} {shape.prefix_tokens} {shape.prefixes}")
    builder = _Builder(tokenizer, chance)
    prefixes = builder.texts(shape.prefix_tokens, shape.prefixes) if shape.prefix_tokens else [""]
    starts = [prefixes[number % len(prefixes)] for number in range(count)]
    texts = builder.continued(starts, shape.total)
    source = f"{counted(count, 'synthetic prompt')} of {shape.words}, by the tokenizer of {tokenizer.name}"
    requests = tuple(
        BenchRequest(prompt=text, input_tokens=shape.total, asked_input_tokens=shape.total) for text in texts
    )
    return SyntheticPrompts(requests=requests, source=source)


def prompt_count(shape: PromptShape, most: int) -> int:
    """Each prefix is in one, even if they are very long."""
    return max(1, min(most, MOST_TOKENS // shape.total), min(most, shape.prefixes))


def approximate_prompt(shape: PromptShape, reason: str) -> SyntheticPrompts:
    """Without a tokenizer: so many times a word that is one token in most of them."""
    source = f"one prompt of {counted(shape.total, 'word')}, about as many tokens ({reason})"
    request = BenchRequest(prompt=" ".join([_WORD] * shape.total), asked_input_tokens=shape.total)
    return SyntheticPrompts(requests=(request,), source=source)


class _Builder:
    """Adds words, counts, and corrects the difference until every text has its length."""

    def __init__(self, tokenizer: Tokenizer, chance: random.Random) -> None:
        self._tokenizer, self._chance = tokenizer, chance
        words = tokenizer.words()
        self._separator, self._pieces = (
            (" ", words) if len(words) >= _FEW_WORDS else ("", tokenizer.letters())
        )
        if not self._pieces:
            what = f"the tokenizer of {tokenizer.name} has no word or letter that is one token"
            raise UsageRefused(what, hint="use --prompts FILE instead of --input-tokens")
        alone = zip(self._pieces, tokenizer.count(self._pieces), strict=True)
        self._firsts = [piece for piece, count in alone if count == 1] or self._pieces

    def texts(self, tokens: int, count: int) -> list[str]:
        return self.continued([""] * count, tokens)

    def continued(self, starts: Sequence[str], tokens: int) -> list[str]:
        """Each start with words after it, so that the whole has `tokens`."""
        have = self._counts(starts)
        own = [self._words(start, tokens - had) for start, had in zip(starts, have, strict=True)]
        texts = self._joined(starts, own)
        for _ in range(_ROUNDS):
            counts = self._tokenizer.count(texts)
            wrong = [number for number, count in enumerate(counts) if count != tokens]
            if not wrong:
                return texts
            for number in wrong:
                own[number] = self._corrected(starts[number], own[number], tokens - counts[number])
                texts[number] = self._text(starts[number], own[number])
        what = f"no text of exactly {tokens} tokens found with the tokenizer of {self._tokenizer.name}"
        raise UsageRefused(what, hint="choose another length, or use --prompts FILE")

    def _counts(self, texts: Sequence[str]) -> list[int]:
        known = dict.fromkeys(texts, 0)
        filled = [text for text in known if text]
        known |= dict(zip(filled, self._tokenizer.count(filled), strict=True))
        return [known[text] for text in texts]

    def _words(self, start: str, count: int) -> list[str]:
        """The first word of a text has no space before it: not each is one token then."""
        first = self._chance.choice(self._pieces if start else self._firsts)
        return [first, *self._chance.choices(self._pieces, k=max(0, count - 1))]

    def _corrected(self, start: str, words: list[str], missing: int) -> list[str]:
        """Of the wanted number, and with another first word."""
        return [
            *self._words(start, 1),
            *words[1 : max(1, len(words) + missing)],
            *self._words(start, missing + 1)[1:],
        ]

    def _joined(self, starts: Sequence[str], own: Sequence[Sequence[str]]) -> list[str]:
        return [self._text(start, words) for start, words in zip(starts, own, strict=True)]

    def _text(self, start: str, words: Sequence[str]) -> str:
        return self._separator.join([*filter(None, [start]), *words])
