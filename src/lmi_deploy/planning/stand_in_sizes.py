"""A model's config.json with its sizes cut: the same architecture, small enough to load anywhere in seconds.

What must divide still divides: attention heads by the tensor parallel degree, heads by the groups of keys and values.
Context length, vocabulary, activation and every other choice of the model stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.sizing.architecture import SIZE_KEYS, with_omitted_sizes
from lmi_deploy.sizing.model_families import NESTED

LAYERS: Final = 2
HEAD_DIM: Final = 16
"""Even parts of it stay even: rotary embeddings cover a quarter, two fifths or half of a head."""
EXPERTS: Final = 4
_LAYERS: Final = frozenset(
    (
        *SIZE_KEYS["layers"],
        *("depth", "encoder_layers", "num_decoder_layers", "num_encoder_layers", "num_hidden_layers"),
    )
)
_HEADS: Final = (*SIZE_KEYS["heads"], "encoder_attention_heads")
_HIDDEN: Final = (*SIZE_KEYS["hidden"], "embed_dim")
_INTERMEDIATE: Final = frozenset((*SIZE_KEYS["intermediate"], "encoder_ffn_dim"))
_RANKS: Final = ("q_lora_rank", "kv_lora_rank")
_ROPE_FACTORS: Final = ("long_factor", "short_factor")
_SECTIONS: Final = "mrope_section"
TOKEN_IDS: Final = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
"""Of the tokenizer that lmi writes."""
_DEFAULTS: Final[Mapping[str, Mapping[str, int]]] = {"gptj": {"rotary_dim": 64}}
"""Sizes of transformers that config.json may omit and that a smaller head would contradict, by model_type."""


def cut_sizes(config: Mapping[str, Any], *, degree: int, vocabulary: int = 0) -> dict[str, Any]:
    """`degree` is the tensor parallel degree; `vocabulary` the number of tokens of another tokenizer (0: the model's
    own)."""
    config = {**_DEFAULTS.get(str(config.get("model_type")), {}), **config}
    config = {**config, **(TOKEN_IDS if vocabulary else {})}
    text = next((name for name in NESTED if isinstance(config.get(name), Mapping)), "")
    language = with_omitted_sizes(config[text]) if text else config
    sizes = _Sizes.of(language, degree, vocabulary)
    own = sizes if language is config else _Sizes.of(config, degree, vocabulary)
    cut = _cut(config, own, {sizes.hidden: sizes.new_hidden})
    return {**cut, text: _cut(language, sizes, {})} if text else cut


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """Of one table of config.json, before and after; 0: it has no such size."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    new_heads: int
    new_kv_heads: int
    degree: int
    vocabulary: int

    @classmethod
    def of(cls, table: Mapping[str, Any], degree: int, vocabulary: int) -> _Sizes:
        heads, kv_heads = _first(table, _HEADS), _first(table, SIZE_KEYS["kv_heads"])
        hidden = _first(table, _HIDDEN)
        head_dim = _first(table, SIZE_KEYS["head_dim"]) or (hidden // heads if heads else 0)
        grouped = 0 < kv_heads < heads
        new_heads = min(heads, 2 * degree if grouped else max(2, degree))
        return cls(
            layers=_first(table, tuple(_LAYERS)),
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            new_heads=new_heads,
            new_kv_heads=min(kv_heads, degree) if grouped else min(kv_heads, new_heads),
            degree=degree,
            vocabulary=vocabulary,
        )

    @property
    def new_head_dim(self) -> int:
        return min(self.head_dim, HEAD_DIM)

    @property
    def new_hidden(self) -> int:
        return min(self.hidden, self.new_heads * self.new_head_dim) if self.heads else min(self.hidden, 32)

    @property
    def new_layers(self) -> int:
        return min(self.layers, LAYERS)


def _cut(table: Mapping[str, Any], sizes: _Sizes, equal: Mapping[int, int]) -> dict[str, Any]:
    """`equal`: sizes of the language part, which other parts name under keys of their own."""
    equal = {**equal, sizes.hidden: sizes.new_hidden}
    return {key: _cut_value(key, value, sizes, equal) for key, value in table.items()}


def _cut_value(key: str, value: Any, sizes: _Sizes, equal: Mapping[int, int]) -> Any:
    if isinstance(value, Mapping):
        if key.startswith("rope"):
            return {name: _cut_rope(name, item, sizes) for name, item in value.items()}
        if any(isinstance(item, (int, list)) for item in value.values()) and not key.startswith("quant"):
            return _cut(value, _Sizes.of(value, 1, 0), equal)
        return dict(value)
    if isinstance(value, list):
        return _cut_list(key, value, sizes)
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return next(_numbers(key, value, sizes, equal), value)


def _numbers(key: str, value: int, sizes: _Sizes, equal: Mapping[int, int]) -> Iterator[int]:
    """The new value first, if the key has one."""
    if key in _LAYERS:
        yield min(value, LAYERS)
    if key in _HEADS:
        yield min(value, sizes.new_heads)
    if key in SIZE_KEYS["kv_heads"]:
        yield sizes.new_kv_heads
    if key == "qk_head_dim":
        yield 2 * HEAD_DIM
    if key in SIZE_KEYS["head_dim"] or key.endswith("head_dim") or key in _RANKS or key == "rotary_dim":
        yield min(value, HEAD_DIM)
    if key in _INTERMEDIATE or "intermediate_size" in key:
        yield min(value, 2 * sizes.new_hidden) if sizes.hidden else min(value, 64)
    yield from _expert_numbers(key, value, sizes)
    yield from _vocabulary_numbers(key, value, sizes)
    named = key in _HIDDEN or key.endswith(("hidden_size", "_dim", "embed_size", "embedding_size"))
    if named and value and value in equal:
        yield equal[value]


def _vocabulary_numbers(key: str, value: int, sizes: _Sizes) -> Iterator[int]:
    if key in SIZE_KEYS["vocab"] and sizes.vocabulary:
        yield sizes.vocabulary
    if key.endswith("_token_id") and sizes.vocabulary:
        yield _token(key, value, sizes.vocabulary)


def _expert_numbers(key: str, value: int, sizes: _Sizes) -> Iterator[int]:
    if key in SIZE_KEYS["experts"]:
        yield min(value, max(EXPERTS, sizes.degree))
    if key in SIZE_KEYS["experts_per_token"]:
        yield min(value, 2)
    if key in ("n_group", "topk_group", "first_k_dense_replace"):
        yield min(value, 1)


def _token(key: str, value: int, vocabulary: int) -> int:
    """Of the tokenizer that lmi writes; a decoder starts with padding, and others do not occur."""
    start = 0 if "start" in key else min(value, vocabulary - 1)
    return TOKEN_IDS.get(key, start)


def _cut_list(key: str, value: Sequence[Any], sizes: _Sizes) -> list[Any]:
    if sizes.layers and len(value) == sizes.layers:
        return list(value[: sizes.new_layers])
    if key.endswith(("layers", "_idx", "_idxs", "_indices", "indexes")) and all(
        type(n) is int for n in value
    ):
        return [number for number in value if number < sizes.new_layers] if sizes.layers else list(value)
    if key.endswith("_token_id") and sizes.vocabulary:
        return sorted({_token(key, number, sizes.vocabulary) for number in value if type(number) is int})
    return list(value)


def _cut_rope(key: str, value: Any, sizes: _Sizes) -> Any:
    """Factors of a rotary embedding, one for each two dimensions of a head."""
    if not (isinstance(value, list) and sizes.head_dim):
        return value
    if key in _ROPE_FACTORS:
        return value[: len(value) * sizes.new_head_dim // sizes.head_dim]
    if key == _SECTIONS:
        parts = [number * sizes.new_head_dim // sizes.head_dim for number in value]
        return [*parts[:-1], sizes.new_head_dim // 2 - sum(parts[:-1])]
    return value


def _first(table: Mapping[str, Any], keys: Sequence[str]) -> int:
    found = (table.get(key) for key in keys)
    return next((value for value in found if type(value) is int and value > 0), 0)
