"""The cache of a sequence on one device, and how many tokens the remaining memory can store.

Layout as in vllm 0.11.0 (v1/kv_cache_interface.py, v1/core/kv_cache_utils.py): blocks of tokens; layers of one kind
share block tables; with windows and full layers in one model the groups have the size of the smallest kind, and the
last one is padded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lmi_deploy.sizing.kv_cache_layers import LayerCache


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayout:
    """How one device caches the layers of a model."""

    layers: Counter[LayerCache]
    degree: int
    item_bytes: float
    state_bytes: float = 4
    block: int = 16
    windows: bool = True
    """Whether the engine frees tokens outside of a window; else every layer caches all tokens."""
    chunks: bool = False
    """The same for chunked attention."""
    batch_tokens: int = 0
    """Tokens that are written in one step before anything is freed."""
    padded_groups: bool = True
    cross_tokens: int = 0
    """Encoder tokens of a sequence, for encoder-decoders."""
    pipeline: int = 1

    def layer_token_bytes(self, layer: LayerCache) -> float:
        """Bytes of one token in one layer on one device."""
        if layer.kind == "latent":
            return layer.head_dim * self.item_bytes  # one vector that every device has
        heads = max(1, layer.kv_heads // self.degree)
        return 2 * heads * layer.head_dim * self.item_bytes

    @property
    def token_bytes(self) -> float:
        """Bytes that one more token of a long sequence takes, over all layers of one device."""
        grows = (
            (layer, count)
            for layer, count in self._counted()
            if layer.kind in ("full", "latent") or self._keeps_all(layer)
        )
        return sum(self.layer_token_bytes(layer) * count for layer, count in grows)

    def sequence_bytes(self, length: int) -> int:
        """Bytes of one sequence of `length` tokens on the device with the most layers."""
        total = 0.0
        counts = self._counted()
        smallest = min((count for layer, count in counts if layer.kind in ("full", "window")), default=1)
        mixed = len({layer.kind for layer, _ in counts} & {"full", "window"}) == 2 and self.windows
        for layer, count in counts:
            if layer.kind == "state":
                total += count * layer.state_items * self.state_bytes / self.degree
                continue
            if mixed and self.padded_groups and layer.kind in ("full", "window"):
                count = -(-count // smallest) * smallest
            total += count * self.layer_token_bytes(layer) * self._tokens(layer, length)
        return int(total)

    def _tokens(self, layer: LayerCache, length: int) -> int:
        """Tokens of a sequence that one layer has room for, in whole blocks."""
        if layer.kind == "nothing":
            return 0
        if layer.kind == "cross":
            return self._blocks(self.cross_tokens or length)
        if layer.kind != "window" or self._keeps_all(layer):
            return self._blocks(length)
        kept = layer.window + self.batch_tokens - (0 if layer.chunked else 1)
        if kept >= length:
            return self._blocks(length)
        # A window may begin in the middle of a block.
        return self._blocks(kept) + (0 if layer.chunked else self.block)

    def _keeps_all(self, layer: LayerCache) -> bool:
        return layer.kind == "window" and not (self.chunks if layer.chunked else self.windows)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.block) * self.block

    def _counted(self) -> list[tuple[LayerCache, int]]:
        """Layers of the fullest pipeline stage."""
        return [(layer, -(-count // self.pipeline)) for layer, count in self.layers.items()]

    @property
    def is_empty(self) -> bool:
        """An encoder has no cache."""
        return not self.layers


def tokens_in(layout: CacheLayout, memory: int, *, length: int) -> int:
    """Tokens that `memory` bytes of one device hold; where layers differ, in sequences of `length`, as vLLM counts."""
    if memory <= 0 or layout.is_empty:
        return 0
    kinds = {layer.kind for layer in layout.layers}
    if kinds <= {"full", "latent"} or not any(map(layout.layer_token_bytes, layout.layers)):
        blocks = int(memory / (layout.token_bytes * layout.block)) if layout.token_bytes else 0
        return blocks * layout.block
    return int(memory / layout.sequence_bytes(length) * length)


def longest_sequence(layout: CacheLayout, memory: int, *, sequences: int, limit: int) -> int:
    """The maximum tokens that each of `sequences` may have at once; 0 if not even one block fits."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if sequences * layout.sequence_bytes(middle) <= memory:
            low = middle
        else:
            high = middle - 1
    return low
