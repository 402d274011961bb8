"""Weights on one device, from headers and from config.json."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from lmi_deploy.sizing.architecture import read_architecture
from lmi_deploy.sizing.quantization import requested_bits, stored_quantization
from lmi_deploy.sizing.synthesized_tensors import tensors_of
from lmi_deploy.sizing.tensors import CannotTell, Tensor, merge_experts
from lmi_deploy.sizing.weights_per_device import Partition, is_loaded, role_of, weights_on_device
from tests.support.model_shapes import DEEPSEEK_V3, GPT_OSS_20B, LLAMA_8B, LLAMA_70B, QWEN_NEXT, T5_XL, Table

GIB = 2**30


def on_device(table: Table, cut: Partition) -> int:
    shape, quantization = read_architecture(table), stored_quantization(table)
    return weights_on_device(tensors_of(shape, quantization), shape, cut, quantization).total


def total_items(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.items for tensor in tensors)


@pytest.mark.parametrize(
    ("table", "published"),
    [(LLAMA_8B, 8_030_261_248), (LLAMA_70B, 70_553_706_496), (DEEPSEEK_V3, 671_026_419_200)],
    ids=["Llama-3-8B", "Llama-3-70B", "DeepSeek-V3"],
)
def test_config_alone_gives_the_published_parameter_count(table: Table, published: int) -> None:
    shape = read_architecture(table)
    assert total_items(tensors_of(shape, stored_quantization(table))) == pytest.approx(published, rel=0.001)


def test_encoder_decoder_counts_both_stacks_and_cross_attention() -> None:
    shape = read_architecture(T5_XL)
    assert total_items(tensors_of(shape, None)) == pytest.approx(2_849_757_184, rel=0.001)


def test_tensor_parallelism_divides_everything_except_norms() -> None:
    one, four = on_device(LLAMA_8B, Partition()), on_device(LLAMA_8B, Partition(tensor_parallel=4))
    norms = (2 * 32 + 1) * 4096 * 2
    assert four == pytest.approx((one - norms) / 4 + norms, rel=1e-6)


def test_kv_projections_are_repeated_with_fewer_heads_than_devices() -> None:
    shape = read_architecture(LLAMA_8B)
    keys = Tensor("model.layers.0.self_attn.k_proj.weight", "BF16", (1024, 4096))
    at = {
        degree: weights_on_device([keys], shape, Partition(tensor_parallel=degree), None).total
        for degree in (1, 8, 16)
    }
    assert (at[8], at[16]) == (at[1] // 8, at[1] // 8)


def test_vocabulary_is_padded_before_it_is_divided() -> None:
    shape = read_architecture(LLAMA_8B)
    odd = Tensor("model.embed_tokens.weight", "BF16", (32001, 4096))
    assert weights_on_device([odd], shape, Partition(), None).total == 32064 * 4096 * 2


def test_tied_output_matrix_is_counted_once() -> None:
    shape = read_architecture({**LLAMA_8B, "tie_word_embeddings": True})
    assert not is_loaded(Tensor("lm_head.weight", "BF16", (128256, 4096)), shape)


def test_speculation_layers_are_not_loaded() -> None:
    shape = read_architecture(DEEPSEEK_V3)
    assert is_loaded(Tensor("model.layers.60.mlp.gate.weight", "BF16", (256, 7168)), shape)
    assert not is_loaded(Tensor("model.layers.61.mlp.gate.weight", "BF16", (256, 7168)), shape)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("model.layers.0.mlp.gate.weight", "replicated"),
        ("model.layers.0.mlp.gate_proj.weight", "cut"),
        ("model.layers.3.mlp.experts.N.up_proj.weight", "cut"),
        ("model.layers.0.self_attn.kv_a_proj_with_mqa.weight", "replicated"),
        ("model.layers.0.self_attn.kv_b_proj.weight", "cut"),
        ("transformer.h.0.attn.c_attn.weight", "fused"),
        ("transformer.wte.weight", "vocabulary"),
        ("bert.encoder.layer.0.attention.output.dense.weight", "cut"),
        ("encoder.layer.0.attention.self.key.weight", "keys"),
    ],
)
def test_role_follows_from_the_layer_name(name: str, role: str) -> None:
    assert role_of(name, 2) == role


def test_pipeline_stages_divide_the_layers() -> None:
    half = on_device(LLAMA_70B, Partition(pipeline_parallel=2))
    assert half == pytest.approx(on_device(LLAMA_70B, Partition()) / 2, rel=0.02)


def test_float32_checkpoint_is_loaded_in_16_bits() -> None:
    shape = read_architecture(LLAMA_8B)
    tensor = Tensor("model.layers.0.mlp.up_proj.weight", "F32", (14336, 4096))
    assert weights_on_device([tensor], shape, Partition(float_bits=16), None).total == 14336 * 4096 * 2


def test_packed_weights_and_scales_keep_their_size() -> None:
    shape = read_architecture(LLAMA_8B)
    packed = Tensor("model.layers.0.mlp.up_proj.qweight", "I32", (4096, 1792))
    scales = Tensor("model.layers.0.mlp.up_proj.weight_scale_inv", "F32", (112, 32))
    assert weights_on_device([packed], shape, Partition(), None).total == 4096 * 1792 * 4
    assert weights_on_device([scales], shape, Partition(), None).total == 112 * 32 * 4


def test_quantising_while_loading_skips_embeddings_and_needs_a_peak() -> None:
    shape = read_architecture(LLAMA_8B)
    cut = Partition(linear_bits=requested_bits("fp8"))
    found = weights_on_device(tensors_of(shape, None), shape, cut, None)
    embeddings = 2 * 128256 * 4096 * 2
    assert found.total == pytest.approx((8_030_261_248 * 2 - embeddings) / 2 + embeddings, rel=0.001)
    assert found.before_quantization == pytest.approx(8_030_261_248 * 2, rel=0.001)


@pytest.mark.parametrize(
    ("quantization", "bits"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8 + 24 / 128),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.5),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8),
        ({"quant_method": "mxfp4"}, 4.25),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 4, "group_size": 32}}},
            },
            4.5,
        ),
    ],
)
def test_bits_per_quantised_weight(quantization: Table, bits: float) -> None:
    found = stored_quantization({"quantization_config": quantization})
    assert found is not None
    assert found.bits == bits


def test_unknown_quantisation_is_an_error() -> None:
    with pytest.raises(CannotTell, match="quant_method tomorrow"):
        stored_quantization({"quantization_config": {"quant_method": "tomorrow"}})


def test_mxfp4_experts_have_kernel_padding() -> None:
    # vLLM 0.11 prints 13.47 GiB for gpt-oss-20b on one H100.
    assert on_device(GPT_OSS_20B, Partition()) / GIB == pytest.approx(13.47, rel=0.02)


def test_unconverted_layers_keep_their_size() -> None:
    table = {
        **LLAMA_8B,
        "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["self_attn"]},
    }
    attention = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096)
    full = {**LLAMA_8B, "quantization_config": {"quant_method": "fp8"}}
    assert on_device(table, Partition()) - on_device(full, Partition()) == pytest.approx(attention, rel=0.01)


def test_hybrid_model_needs_safetensors_headers() -> None:
    with pytest.raises(CannotTell, match="safetensors headers are needed"):
        tensors_of(read_architecture(QWEN_NEXT), None)


def test_experts_of_a_layer_are_merged() -> None:
    experts = [Tensor(f"model.layers.0.mlp.experts.{n}.up_proj.weight", "BF16", (8, 4)) for n in range(256)]
    merged = merge_experts(experts)
    assert [(one.name, one.count) for one in merged] == [("model.layers.0.mlp.experts.N.up_proj.weight", 256)]
    assert total_items(merged) == total_items(experts)


def test_unknown_dtype_is_an_error() -> None:
    with pytest.raises(CannotTell, match="F3_E1M1"):
        _ = Tensor("a.weight", "F3_E1M1", (4, 4)).size
