"""What the GPUs of an instance cannot do, and the models that vLLM refuses."""

from __future__ import annotations

from typing import Any

import pytest

from lmi_deploy.domain.speculative_decoding import draft_model
from lmi_deploy.planning.compute_capability import EngineSettings, device_mistakes, device_notes
from lmi_deploy.planning.model_compatibility import (
    checkpoint_needs,
    draft_mistake,
    model_mistakes,
    model_notes,
)

T4, A100, A10G, L4, H100, B200 = 7.5, 8.0, 8.6, 8.9, 9.0, 10.0
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
T5 = {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "is_encoder_decoder": True}


def asked(image: int = 28, environment: dict[str, str] | None = None, **options: str) -> EngineSettings:
    return EngineSettings(options=options, environment=environment or {}, image=image)


@pytest.mark.parametrize(
    ("options", "capability", "refused"),
    [
        ({"dtype": "bf16"}, T4, True),
        ({"dtype": "bf16"}, A100, False),
        ({"dtype": "auto"}, T4, False),
        ({"quantize": "fp8"}, T4, False),
        ({"quantize": "mxfp4"}, T4, True),
        ({"quantize": "mxfp4"}, A10G, False),
        ({"quantization": "fp_quant"}, H100, True),
        ({"quantization": "fp_quant"}, B200, False),
        ({"quantize": "no_such"}, T4, False),
        ({"attention_backend": "FLASH_ATTN"}, T4, True),
        ({"attention_backend": "flash_attn"}, A10G, False),
        ({"attention_backend": "FLASHMLA"}, A100, True),
        ({"attention_backend": "TRITON_ATTN"}, T4, False),
        ({"attention_config": '{"backend": "FLASHINFER"}'}, T4, True),
        ({"attention_config": '{"flash_attn_version": 3}'}, L4, True),
        ({"attention_config": '{"flash_attn_version": 3}'}, H100, False),
        ({"attention_config": "{damaged"}, T4, False),
    ],
)
def test_options_the_device_cannot_run_are_refused(
    options: dict[str, str], capability: float, refused: bool
) -> None:
    assert bool([*device_mistakes(asked(**options), "it", capability)]) == refused


def test_fp8_needs_a_higher_capability_in_older_images() -> None:
    old = [*device_mistakes(asked(15, quantize="fp8"), "NVIDIA T4", T4)]
    assert (
        "fp8 needs compute capability 8.0 in vLLM 0.8.4, but NVIDIA T4 has compute capability 7.5"
        in old[0].what
    )
    assert old[0].hint == "use a method that runs there: awq, gptq, bitsandbytes"


def test_flash_attention_3_was_accepted_on_a100_by_older_images() -> None:
    environment = {"VLLM_FLASH_ATTN_VERSION": "3"}
    assert not [*device_mistakes(asked(15, environment), "it", A100)]
    assert [*device_mistakes(asked(18, environment), "it", A100)]
    assert [*device_mistakes(asked(15, environment), "it", A10G)]


def test_fallback_of_a_device_is_noted() -> None:
    (note,) = device_notes(asked(quantize="fp8"), "NVIDIA A10G", A10G)
    assert "Marlin" in note
    (note,) = device_notes(asked(kv_cache_dtype="fp8"), "NVIDIA A10G", A10G)
    assert "lmi does not know" in note
    assert not [*device_notes(asked(quantize="fp8", kv_cache_dtype="fp8"), "NVIDIA L4", L4)]


@pytest.mark.parametrize(
    ("config", "options", "key", "what"),
    [
        (T5, {}, "engine", "vLLM 0.26.0 does not support T5ForConditionalGeneration, an encoder-decoder"),
        (
            LLAMA,
            {"max_model_len": "16384"},
            "max_model_len",
            "16384 is more than the model's maximum length, 8192",
        ),
        (LLAMA, {"quantize": "awq"}, "quantize", "awq needs quantized weights"),
        (
            LLAMA | {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            {"quantize": "awq"},
            "quantize",
            "awq cannot be used: the model is quantized with gptq",
        ),
        (
            {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]},
            {"dtype": "fp16"},
            "dtype",
            "refuses fp16",
        ),
    ],
)
def test_model_vllm_cannot_run_is_refused(
    config: dict[str, Any], options: dict[str, str], key: str, what: str
) -> None:
    (mistake,) = model_mistakes(config, asked(**options))
    assert mistake.option == key
    assert what in mistake.what


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({}, {"quantize": "awq", "max_model_len": "99999"}),
        (LLAMA, {"max_model_len": "8192"}),
        (LLAMA, {"max_model_len": "auto"}),
        (LLAMA, {"max_model_len": "99999", "hf_overrides": '{"max_position_embeddings": 99999}'}),
        (LLAMA, {"quantize": "fp8"}),
        (LLAMA | {"quantization_config": {"quant_method": "awq", "bits": 4}}, {"quantize": "awq_marlin"}),
        (LLAMA | {"quantization_config": {"quant_method": "gptq", "bits": 4}}, {"quantize": "moe_wna16"}),
        (LLAMA | {"max_position_embeddings": None}, {"max_model_len": "99999"}),
        ({"architectures": "broken"}, {}),
        ({"architectures": ["LlamaForSequenceClassification"]}, {}),
        ({"architectures": ["SomethingNewForCausalLM"]}, {}),
    ],
)
def test_model_that_may_run_is_accepted(config: dict[str, Any], options: dict[str, str]) -> None:
    assert not [*model_mistakes(config, asked(**options))]


def test_gptq_file_of_an_older_tool_is_accepted() -> None:
    assert not [*model_mistakes(LLAMA, asked(quantize="gptq"), files=["quantize_config.json"])]


def test_long_context_can_be_forced() -> None:
    forced = asked(environment={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, max_model_len="99999")
    assert not [*model_mistakes(LLAMA, forced)]


def test_architecture_depends_on_the_version() -> None:
    qwen3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    (mistake,) = model_mistakes(qwen3, asked(14))
    assert mistake.what == "vLLM 0.7.1 does not support Qwen3ForCausalLM"
    assert mistake.hint == "use an image from lmi15 on, which supports it"
    assert not [*model_mistakes(qwen3, asked(15))]


def test_unknown_architecture_may_run_with_transformers() -> None:
    (note,) = model_notes({"architectures": ["SomethingNewForCausalLM"]}, asked())
    assert "lmi cannot check this" in note
    assert not [*model_notes(LLAMA, asked())]
    assert not [*model_notes(T5, asked())]


def test_quantised_checkpoint_needs_a_capable_device() -> None:
    mxfp4 = {"quantization_config": {"quant_method": "mxfp4"}}
    assert "quantized with mxfp4, which needs compute capability 8.0" in checkpoint_needs(
        mxfp4, asked(), "a T4", T4
    )
    assert checkpoint_needs(mxfp4, asked(), "an A10G", A10G) == ""
    assert checkpoint_needs({"quantization_config": {"quant_method": "unheard"}}, asked(), "a T4", T4) == ""
    assert checkpoint_needs(LLAMA, asked(), "a T4", T4) == ""


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ('{"model": "org/small", "num_speculative_tokens": 4}', "org/small"),
        ('{"method": "draft_model", "model": "org/small"}', "org/small"),
        ('{"method": "eagle3", "model": "org/head"}', ""),
        ('{"model": "org/model-EAGLE3"}', ""),
        ('{"method": "ngram"}', ""),
        ('{"model": "org/small", "use_heterogeneous_vocab": true}', ""),
        ("damaged", ""),
    ],
)
def test_draft_model_is_read_from_the_speculative_config(value: str, name: str) -> None:
    assert draft_model({"speculative_config": value}) == name


def test_draft_model_needs_the_same_vocabulary() -> None:
    mistake = draft_mistake(LLAMA, LLAMA | {"vocab_size": 32000}, "org/small")
    assert mistake is not None
    assert "org/small has a vocabulary of 32000 tokens, but the model has 128256" in mistake.what
    assert draft_mistake(LLAMA, LLAMA, "org/small") is None
    assert draft_mistake(LLAMA, {}, "org/small") is None
