"""config.json with its sizes cut: what must divide divides, what is no size stays."""

from __future__ import annotations

from typing import Any

import pytest

from lmi_deploy.planning.stand_in_sizes import cut_sizes
from lmi_deploy.sizing.architecture import Architecture, read_architecture
from lmi_deploy.sizing.synthesized_tensors import tensors_of
from lmi_deploy.sizing.tensors import CannotTell, total_size
from tests.support.model_shapes import LLAMA_8B, LLAMA_70B, QWEN_7B
from tests.support.published_models import MODELS

PUBLISHED = {name: model["config"] for name, model in MODELS.items() if model["config"]}
LARGEST = 40_000_000
"""Bytes for each device: loads in a second, and an embedding of 256,000 tokens fits."""


def weights_of(shape: Architecture) -> int:
    """Bytes; 0 where config.json alone does not determine the tensors."""
    try:
        return total_size(tensors_of(shape, None))
    except CannotTell:
        return 0


def splittable(config: dict[str, Any], degree: int) -> bool:
    try:
        return read_architecture(config).heads % degree == 0
    except CannotTell:
        return False


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_published_models_stay_models_that_split(degree: int) -> None:
    configs = {name: config for name, config in PUBLISHED.items() if splittable(config, degree)}
    assert len(configs) > 50
    for name, config in configs.items():
        before, after = read_architecture(config), read_architecture(cut_sizes(config, degree=degree))
        assert after.layers <= 2, name
        assert (after.model_type, after.vocab, after.positions) == (
            before.model_type,
            before.vocab,
            before.positions,
        ), name
        assert after.heads % degree == 0, name
        assert after.heads % after.kv_heads == 0, name
        assert after.kv_heads % degree == 0 or degree % after.kv_heads == 0, name
        assert weights_of(after) < LARGEST * degree, name


@pytest.mark.parametrize(
    ("config", "degree", "sizes"),
    [
        (LLAMA_8B, 1, (2, 1, 16, 32)),
        (LLAMA_8B, 4, (8, 4, 16, 128)),
        (LLAMA_70B, 8, (16, 8, 16, 256)),
        (QWEN_7B, 4, (8, 4, 16, 128)),
    ],
    ids=["one device", "four", "eight", "without a group for each device"],
)
def test_heads_keep_their_groups(
    config: dict[str, Any], degree: int, sizes: tuple[int, int, int, int]
) -> None:
    cut = cut_sizes(config, degree=degree)
    names = ("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size")
    assert tuple(cut[name] for name in names) == sizes


def test_fewer_groups_than_devices_stay_as_they_are() -> None:
    cut = cut_sizes({**QWEN_7B, "num_attention_heads": 32, "num_key_value_heads": 2}, degree=8)
    assert (cut["num_attention_heads"], cut["num_key_value_heads"]) == (16, 2)


def test_experts_are_enough_for_every_device() -> None:
    config = {**LLAMA_8B, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}
    cut = cut_sizes(config, degree=8)
    assert (cut["num_experts"], cut["num_experts_per_tok"]) == (8, 2)
    assert cut["moe_intermediate_size"] == 2 * cut["hidden_size"]


def test_lists_of_layers_are_as_long_as_the_layers() -> None:
    kinds = ["sliding_attention", "full_attention"] * 16
    cut = cut_sizes({**LLAMA_8B, "layer_types": kinds, "mlp_only_layers": [0, 1, 5]}, degree=1)
    assert cut["layer_types"] == kinds[:2]
    assert cut["mlp_only_layers"] == [0, 1]


def test_rotary_factors_follow_the_head() -> None:
    rope = {"type": "longrope", "long_factor": [1.5] * 64, "mrope_section": [16, 24, 24], "factor": 8.0}
    cut = cut_sizes({**LLAMA_8B, "rope_scaling": rope}, degree=1)["rope_scaling"]
    assert len(cut["long_factor"]) == 8
    assert cut["mrope_section"] == [2, 3, 3]
    assert cut["factor"] == 8.0


def test_vision_part_is_cut_and_still_feeds_the_language_part() -> None:
    vision = {
        "depth": 32,
        "embed_dim": 1280,
        "num_heads": 16,
        "hidden_size": 4096,
        "patch_size": 14,
        "spatial": [1],
    }
    cut = cut_sizes({"model_type": "qwen2_vl", "text_config": LLAMA_8B, "vision_config": vision}, degree=1)
    assert cut["vision_config"]["depth"] == 2
    assert cut["vision_config"]["patch_size"] == 14
    assert cut["text_config"]["hidden_size"] == 32


def test_another_vocabulary_moves_the_marks_into_it() -> None:
    config = {**LLAMA_8B, "bos_token_id": 128000, "eos_token_id": [128001, 128009]}
    cut = cut_sizes(config, degree=1, vocabulary=259)
    assert (cut["vocab_size"], cut["pad_token_id"], cut["bos_token_id"]) == (259, 0, 1)
    assert cut["eos_token_id"] == 2


def test_quantization_and_choices_stay() -> None:
    quantized = {"quant_method": "awq", "bits": 4, "group_size": 128}
    config = {**LLAMA_8B, "quantization_config": quantized, "hidden_act": "silu", "rope_theta": 500000}
    cut = cut_sizes(config, degree=1)
    assert (cut["quantization_config"], cut["hidden_act"], cut["rope_theta"]) == (quantized, "silu", 500000)


def test_gptj_rotates_no_more_than_a_head() -> None:
    config = {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "vocab_size": 50400}
    cut = cut_sizes(config, degree=1)
    assert (cut["rotary_dim"], cut["n_embd"], cut["n_head"], cut["n_layer"]) == (16, 32, 2, 2)


def test_sizes_that_config_json_omits_are_cut_too() -> None:
    """llava-hf/llava-1.5-7b-hf names no size of its language part: they are the defaults of LlamaConfig."""
    language = {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064}
    cut = cut_sizes({"model_type": "llava", "text_config": language, "vision_config": {}}, degree=1)
    assert cut["text_config"]["num_hidden_layers"] == 2
    assert cut["text_config"]["hidden_size"] < 100
    assert cut["text_config"]["vocab_size"] == 32064
