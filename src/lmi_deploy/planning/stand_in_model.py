"""A stand-in for a model: its own files, but config.json with its sizes cut and weights with random values.

The tokenizer is the model's own; where there is none, one with a token for each byte.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from lmi_deploy.domain.gathered_facts import FileEntry, TensorHeader
from lmi_deploy.domain.rehearsal_report import StandInModel
from lmi_deploy.planning.file_selection import WEIGHTS
from lmi_deploy.planning.stand_in_sizes import TOKEN_IDS, cut_sizes
from lmi_deploy.sizing.architecture import read_architecture
from lmi_deploy.sizing.synthesized_tensors import tensors_of
from lmi_deploy.sizing.tensors import CannotTell

CONFIG: Final = "config.json"
INDEX: Final = "model.safetensors.index.json"
COPIED_LIMIT: Final = 100_000_000
"""Bytes of the largest file that is taken over: more than any tokenizer has."""
_TOKENIZERS: Final = (
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "vocab.txt",
)
_PAIRED: Final = ("vocab.json", "merges.txt")
_LEAST: Final = 1000
"""Bytes: no tokenizer is smaller."""
_CHAT: Final = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
_LLAMA: Final = "model.embed_tokens.weight"
"""A tensor of every model with the layout of Llama, which `synthesized_tensors` follows."""
_UNKNOWN: Final[tuple[TensorHeader, ...]] = (("stand_in.weight", "BF16", (16, 16)),)
"""For other layouts: transformers makes random weights itself for the tensors that are missing, and refuses files in
which only some names are right.
"""
_MARKS: Final = ("<pad>", "<s>", "</s>")


def stand_in_model(
    files: Sequence[FileEntry],
    config: Mapping[str, Any],
    *,
    degree: int,
    quantized: bool,
    names: Collection[str] = (),
) -> StandInModel:
    """`files` are the selected ones, `names` the tensors of the model, if they are known.

    A model that was compiled for its engine (no safetensors and no .bin) is its own stand-in.

    `quantized`: whether the engine is given the quantization of config.json too; one that runs on a CPU cannot load
    random weights as packed integers.
    """
    if not any(entry.path.endswith((".safetensors", ".bin")) for entry in files):
        # Compiled for an engine, which no cut sizes describe.
        return StandInModel(
            copied=tuple(files), written={}, tensors={}, cut={}, unlikely=(), own_tokenizer=True
        )
    whole = {entry.path for entry in files if entry.size >= _LEAST}
    own = any(name in whole for name in _TOKENIZERS) or whole.issuperset(_PAIRED)
    kept = dict(config) if quantized else {k: v for k, v in config.items() if k != "quantization_config"}
    small = cut_sizes(kept, degree=degree, vocabulary=0 if own or not config else len(_letters()))
    written = {CONFIG: _text(small)} if config else {}
    if not own and config:
        written |= tokenizer_files() | {"generation_config.json": _text(_generation())}
    weights = sorted(entry.path for entry in files if entry.path.endswith(".safetensors")) or [
        "model.safetensors"
    ]
    tensors = _by_file(weights, _tensors(small) if _LLAMA in names else _UNKNOWN)
    if INDEX in {entry.path for entry in files}:
        written[INDEX] = _index(tensors)
    left_out = {CONFIG, INDEX, *written}
    return StandInModel(
        copied=tuple(entry for entry in files if entry.path not in left_out and _is_copied(entry)),
        written=written,
        tensors=tensors,
        cut=dict(_cut_keys(config, small)),
        unlikely=tuple(sorted({*_marks(small), *(() if own else _blanks())})),
        own_tokenizer=own,
    )


def _cut_keys(
    before: Mapping[str, Any], after: Mapping[str, Any], part: str = ""
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Every key with another value than before; those of a part of the model by `part.key`."""
    for key, old in before.items():
        new = after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _cut_keys(old, new, f"{part}{key}.")
        elif old != new:
            yield f"{part}{key}", (old, new)


def _is_copied(entry: FileEntry) -> bool:
    return not entry.path.endswith(WEIGHTS) and entry.size <= COPIED_LIMIT


def _tensors(config: Mapping[str, Any]) -> tuple[TensorHeader, ...]:
    try:
        found = tensors_of(read_architecture(config), None)
    except CannotTell:
        return _UNKNOWN
    return tuple((one.name, "BF16", one.shape) for one in found)


def _by_file(files: Sequence[str], tensors: Sequence[TensorHeader]) -> Mapping[str, tuple[TensorHeader, ...]]:
    """Dealt out in turn; a file may stay empty."""
    return {path: tuple(tensors[number :: len(files)]) for number, path in enumerate(files)}


def _index(tensors: Mapping[str, Sequence[TensorHeader]]) -> str:
    names = {name: path for path, headers in tensors.items() for name, _, _ in headers}
    return _text({"metadata": {}, "weight_map": names})


def tokenizer_files() -> dict[str, str]:
    """A byte-level tokenizer with a chat template, in the format of the library `tokenizers`."""
    letters = _letters()
    special: list[dict[str, Any]] = [
        {"id": number, "content": mark, "single_word": False, "lstrip": False, "rstrip": False}
        | {"normalized": False, "special": True}
        for number, mark in enumerate(_MARKS)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model: dict[str, Any] = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
    }
    model |= {"end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    model |= {"vocab": {letter: number for number, letter in enumerate(letters)}, "merges": []}
    whole: dict[str, Any] = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special}
    whole |= {"normalizer": None, "pre_tokenizer": byte_level, "post_processor": None}
    whole |= {"decoder": byte_level, "model": model}
    pad, begin, end = _MARKS
    names = {"pad_token": pad, "bos_token": begin, "eos_token": end, "unk_token": pad}
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **names, "chat_template": _CHAT}
    settings |= {"model_input_names": ["input_ids", "attention_mask"], "clean_up_tokenization_spaces": False}
    return {
        "tokenizer.json": _text(whole),
        "tokenizer_config.json": _text(settings),
        "special_tokens_map.json": _text(names),
    }


def _generation() -> dict[str, Any]:
    """No answer consists of marks or spaces alone."""
    return {**TOKEN_IDS, "suppress_tokens": sorted({*TOKEN_IDS.values(), *_blanks()})}


def _letters() -> list[str]:
    """The tokens by number."""
    return [*_MARKS, *sorted(_byte_letters())]


def _blanks() -> Iterator[int]:
    """Spaces and control characters: the bytes without a letter of their own get one from 256 on."""
    yield from (number for number, letter in enumerate(_letters()) if len(letter) == 1 and ord(letter) >= 256)


def _marks(config: Mapping[str, Any]) -> Iterator[int]:
    for name in TOKEN_IDS:
        value = config.get(name)
        yield from (
            number for number in (value if isinstance(value, list) else [value]) if type(number) is int
        )


def _byte_letters() -> list[str]:
    """The printable letter of each byte in GPT-2's byte-level alphabet."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [number for number in range(256) if number not in visible]
    return [chr(number) for number in visible] + [chr(256 + place) for place in range(len(others))]


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
