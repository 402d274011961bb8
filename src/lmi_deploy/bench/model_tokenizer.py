"""The tokenizer of a model, by the library `tokenizers`: it counts as the server does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.domain.recipe_weights_keys import is_folder
from lmi_deploy.errors import LmiError, NotInstalled, UsageRefused
from lmi_deploy.ports.hub import Hub
from lmi_deploy.workflows.dependencies import Dependencies

FILE: Final = "tokenizer.json"
_LARGEST: Final = 100_000_000
"""Bytes: the largest published one has 34 million."""
_WORD: Final = re.compile("[a-z]{2,12}")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_BATCH: Final = 2000


class ModelTokenizer:
    """Counts tokens without the special ones, and without a chat template."""

    def __init__(self, content: bytes, name: str) -> None:
        """UsageRefused if it is not in the form of the library, NotInstalled without the library."""
        if find_spec("tokenizers") is None:
            raise NotInstalled("tokenizers")
        # Not at the top: the library is of an extra, and few commands count tokens.
        from tokenizers import Tokenizer

        self.name = name
        try:
            self._tokenizer = Tokenizer.from_str(content.decode("utf-8"))
        except Exception as reason:  # noqa: BLE001  (the library raises no narrower class)
            hint = "name another: --tokenizer FOLDER, with a tokenizer.json that `tokenizers` reads"
            raise UsageRefused(f"the tokenizer of {name} cannot be read: {reason}", hint=hint) from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""
        found: list[int] = []
        for start in range(0, len(texts), _BATCH):
            batch = self._tokenizer.encode_batch([*texts[start : start + _BATCH]], add_special_tokens=False)
            found += [len(one.ids) for one in batch]
        return found

    def words(self) -> list[str]:
        """English-looking words that are one token each after a space; letters, if there are none."""
        decoded = {self._tokenizer.decode([number]).strip() for number in self._numbers()}
        words = sorted(word for word in decoded if _WORD.fullmatch(word))
        (base,) = self.count(["the"])
        counts = self.count([f"the {word}" for word in words])
        return [word for word, count in zip(words, counts, strict=True) if count == base + 1]

    def letters(self) -> list[str]:
        """Those that are one token each beside each other, without a space."""
        counts = self.count([one * 3 for one in _LETTERS])
        return [one for one, count in zip(_LETTERS, counts, strict=True) if count == 3]

    def _numbers(self) -> Iterator[int]:
        """Ordinary tokens, at most 20,000 of them, spread over the vocabulary."""
        numbers = sorted(self._tokenizer.get_vocab(with_added_tokens=False).values())
        yield from numbers[:: max(1, len(numbers) // 20_000)]


def tokenizer_at(path: Path) -> ModelTokenizer:
    """Of a folder with tokenizer.json, or of that file."""
    file = path / FILE if path.is_dir() else path
    try:
        return ModelTokenizer(file.read_bytes(), str(path))
    except OSError as reason:
        hint = f"name a folder with {FILE}, or a model of the Hub"
        raise UsageRefused(f"{file}: {reason.strerror}", hint=hint) from None


def model_tokenizer(model: str, revision: str, deps: Dependencies) -> ModelTokenizer:
    """That of a model of the Hub, in S3 or in a folder. UsageRefused if it has none."""
    if is_folder(model):
        return tokenizer_at(Path(model).expanduser())
    hub = deps.hub(model)
    found = repository_tokenizer(hub, hub.listing(model, revision))
    if found is None:
        hint = f"name another, with the same vocabulary: --tokenizer FOLDER, with {FILE}"
        raise UsageRefused(f"{model}: it has no {FILE}", hint=hint)
    return found


def repository_tokenizer(hub: Hub, listing: ModelListing) -> ModelTokenizer | None:
    """None if the repository has no tokenizer.json."""
    entry = next((one for one in listing.files if one.path == FILE), None)
    if entry is None:
        return None
    if entry.size > _LARGEST:
        hint = "name another: --tokenizer FOLDER"
        raise UsageRefused(f"{listing.model_id}: {FILE} has {entry.size} bytes", hint=hint)
    return ModelTokenizer(hub.read(listing, FILE), listing.model_id)


def tokenizer_or_reason(model: str, revision: str, deps: Dependencies) -> tuple[ModelTokenizer | None, str]:
    """For lengths that may be approximate: None, and why."""
    try:
        return model_tokenizer(model, revision, deps), ""
    except NotInstalled:
        raise
    except LmiError as error:
        return None, error.message
