"""The cache of a sequence, per layer and device."""

from __future__ import annotations

from typing import Any

import pytest

from lmi_deploy.sizing.architecture import read_architecture
from lmi_deploy.sizing.kv_cache_layers import cache_layers
from lmi_deploy.sizing.kv_cache_size import CacheLayout, longest_sequence, tokens_in
from lmi_deploy.sizing.tensors import CannotTell
from tests.support.model_shapes import (
    BERT,
    DEEPSEEK_V3,
    GEMMA_27B,
    GPT_OSS_20B,
    LLAMA_8B,
    QWEN_7B,
    QWEN_NEXT,
    T5_XL,
    Table,
)

GIB = 2**30


def layout(table: Table, **changes: Any) -> CacheLayout:
    settings: dict[str, Any] = {"degree": 1, "item_bytes": 2.0, **changes}
    return CacheLayout(layers=cache_layers(read_architecture(table)), **settings)


@pytest.mark.parametrize(
    ("table", "published"),
    [(LLAMA_8B, 131072), (QWEN_7B, 57344), (DEEPSEEK_V3, 70272), (T5_XL, 196608)],
    ids=["grouped", "grouped by 7", "compressed", "all heads"],
)
def test_bytes_per_token_match_published_values(table: Table, published: int) -> None:
    assert layout(table).token_bytes == published


def test_token_count_matches_the_gib_in_the_vllm_log() -> None:
    # vllm-project/vllm#10517: 2.89 GiB, 23648 tokens.
    assert tokens_in(layout(LLAMA_8B), int(2.89 * GIB), length=29000) == pytest.approx(23648, rel=0.002)


def test_kv_heads_are_divided_over_devices_down_to_one() -> None:
    assert [layout(LLAMA_8B, degree=n).token_bytes * n for n in (4, 8, 16)] == [131072, 131072, 262144]


def test_compressed_keys_are_on_every_device() -> None:
    assert layout(DEEPSEEK_V3, degree=8).token_bytes == 70272


def test_one_byte_cache_is_half_the_size() -> None:
    assert layout(LLAMA_8B, item_bytes=1.0).token_bytes == 65536


def test_cache_is_allocated_in_whole_blocks() -> None:
    assert layout(LLAMA_8B).sequence_bytes(1) == 16 * 131072
    assert layout(LLAMA_8B, block=1).sequence_bytes(1) == 131072


def test_sliding_window_layers_keep_only_the_window() -> None:
    found = layout(GPT_OSS_20B, batch_tokens=2048)
    one_layer = 2 * 8 * 64 * 2
    window = (-(-(128 + 2048 - 1) // 16) * 16 + 16) * one_layer * 12
    assert found.sequence_bytes(131072) == 131072 * one_layer * 12 + window
    assert found.token_bytes == one_layer * 12


def test_older_engines_keep_all_tokens_in_windowed_layers() -> None:
    kept = layout(GPT_OSS_20B, windows=False)
    assert kept.sequence_bytes(131072) == 131072 * 2 * 8 * 64 * 2 * 24


def test_layer_groups_are_padded_to_the_smallest_kind() -> None:
    kinds = cache_layers(read_architecture(GEMMA_27B))
    assert {layer.kind: count for layer, count in kinds.items()} == {"window": 52, "full": 10}
    padded, plain = layout(GEMMA_27B), layout(GEMMA_27B, padded_groups=False)
    window = 1024 + 16  # 1023 tokens in whole blocks, and the block that a window begins in
    assert padded.sequence_bytes(8192) - plain.sequence_bytes(8192) == 8 * window * 2 * 16 * 128 * 2


def test_unused_window_of_qwen_is_ignored() -> None:
    table = {**QWEN_7B, "sliding_window": 4096, "use_sliding_window": False}
    assert {layer.kind for layer in cache_layers(read_architecture(table))} == {"full"}


def test_llama_4_uses_chunked_attention() -> None:
    table = {**LLAMA_8B, "model_type": "llama4_text", "num_hidden_layers": 48, "attention_chunk_size": 8192}
    kinds = cache_layers(read_architecture(table))
    assert {layer.kind: count for layer, count in kinds.items()} == {"window": 36, "full": 12}
    assert layout(table).sequence_bytes(65536) == layout({**table, "model_type": "llama"}).sequence_bytes(
        65536
    )
    assert layout(table, chunks=True).sequence_bytes(65536) < layout(table).sequence_bytes(65536)


def test_linear_attention_state_does_not_grow() -> None:
    found = layout(QWEN_NEXT)
    assert found.token_bytes == 12 * 2 * 2 * 256 * 2
    conv, state = (2 * 16 * 128 + 32 * 128) * 3, 32 * 128 * 128
    fixed = 36 * (conv + state) * 4
    assert found.sequence_bytes(1600) == 1600 * found.token_bytes + fixed


def test_cross_attention_keeps_the_encoder_tokens() -> None:
    assert layout(T5_XL).sequence_bytes(512) == 2 * 512 * 196608
    assert layout(T5_XL, cross_tokens=1024).sequence_bytes(512) == (512 + 1024) * 196608


def test_encoder_needs_no_cache() -> None:
    found = layout(BERT)
    assert found.is_empty
    assert (found.sequence_bytes(512), tokens_in(found, GIB, length=512)) == (0, 0)
    assert longest_sequence(found, GIB, sequences=8, limit=512) == 512


@pytest.mark.parametrize("sequences", [1, 3, 64])
def test_longest_sequence_is_the_last_that_fits(sequences: int) -> None:
    found, memory = layout(GEMMA_27B, batch_tokens=2048), 20 * GIB
    longest = longest_sequence(found, memory, sequences=sequences, limit=131072)
    assert sequences * found.sequence_bytes(longest) <= memory
    assert longest == 131072 or sequences * found.sequence_bytes(longest + 1) > memory


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"layer_types": ["telepathy"] * 32}, "telepathy"),
        ({"layer_types": ["full_attention"]}, "names 1 of 32 layers"),
        ({"layer_types": ["sliding_attention"] * 32}, "no sliding_window"),
    ],
)
def test_invalid_layer_types_are_refused(changes: Table, missing: str) -> None:
    with pytest.raises(CannotTell, match=missing):
        cache_layers(read_architecture({**LLAMA_8B, **changes}))


def test_multi_query_has_one_key_head() -> None:
    table = {
        "model_type": "falcon",
        "num_hidden_layers": 32,
        "hidden_size": 4544,
        "num_attention_heads": 71,
        "vocab_size": 65024,
        "multi_query": True,
    }
    assert layout(table).token_bytes == 32 * 2 * 64 * 2


@pytest.mark.parametrize(
    ("changes", "heads"),
    [
        ({"multi_query": True}, 1),
        ({"multi_query": False}, 64),
        ({"new_decoder_architecture": True, "num_kv_heads": 8}, 8),
        ({"new_decoder_architecture": False, "multi_query": True, "num_kv_heads": 64}, 1),
        ({"num_key_value_heads": 8}, 8),
        ({}, 1),
    ],
)
def test_falcon_key_heads_depend_on_the_decoder_kind(changes: Table, heads: int) -> None:
    table = {
        "model_type": "falcon",
        "num_hidden_layers": 1,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "vocab_size": 65024,
    }
    assert read_architecture({**table, **changes}).kv_heads == heads


def test_rope_scaling_extends_the_length() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    assert read_architecture({**QWEN_7B, "rope_scaling": scaling}).positions == 131072
    llama = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
    assert read_architecture({**LLAMA_8B, "rope_scaling": llama}).positions == 131072
