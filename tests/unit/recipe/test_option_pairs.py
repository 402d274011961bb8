"""Options that contradict each other, or need another one."""

from __future__ import annotations

import json

import pytest

from lmi_deploy.recipe.checks.option_pairs import Given, pair_mistakes


def found(image: int = 28, degree: int | None = None, **options: str) -> list[tuple[str, str]]:
    return [(name, what) for name, what, _ in pair_mistakes(Given(options, degree, image))]


@pytest.mark.parametrize(
    ("options", "name", "what"),
    [
        ({"max_num_seqs": "8", "max_rolling_batch_size": "4"}, "max_num_seqs", "8 contradicts"),
        ({"quantize": "awq", "quantization": "fp8"}, "quantization", "fp8 contradicts quantize, awq"),
        (
            {"max_num_batched_tokens": "8", "max_num_seqs": "16"},
            "max_num_batched_tokens",
            "less than the number of sequences, 16",
        ),
        (
            {"max_num_batched_tokens": "2k", "max_model_len": "8k", "enable_chunked_prefill": "false"},
            "max_num_batched_tokens",
            "2000 is less than max_model_len, 8000",
        ),
        ({"enable_auto_tool_choice": "true"}, "enable_auto_tool_choice", "needs tool_call_parser"),
        ({"max_loras": "4"}, "max_loras", "needs enable_lora: true"),
        ({"max_loras": "4", "max_cpu_loras": "2", "enable_lora": "true"}, "max_loras", "4 is more than"),
        ({"enable_eplb": "true"}, "enable_eplb", "needs enable_expert_parallel: true"),
        ({"numa_bind_nodes": "1"}, "numa_bind_nodes", "needs numa_bind: true"),
        (
            {"max_num_partial_prefills": "4", "enable_chunked_prefill": "false"},
            "max_num_partial_prefills",
            "4 needs enable_chunked_prefill",
        ),
        (
            {"long_prefill_token_threshold": "9000", "max_model_len": "8000"},
            "long_prefill_token_threshold",
            "9000",
        ),
        ({"pipeline_parallel_degree": "2"}, "pipeline_parallel_degree", "one pipeline stage"),
        ({"batch_size": "4", "enable_streaming": "true"}, "enable_streaming", "cannot stream"),
        (
            {"attention_backend": "FLASH_ATTN", "attention_config": '{"backend": "TRITON_ATTN"}'},
            "attention_backend",
            "attention_config also sets backend",
        ),
        (
            {"speculative_config": '{"method": "ngram"}'},
            "speculative_config",
            "has no num_speculative_tokens",
        ),
        ({"quantize": "mxfp4", "dtype": "fp16"}, "dtype", "fp16 cannot be used with mxfp4"),
        ({"load_format": "bitsandbytes", "quantize": "fp8"}, "load_format", "cannot be used with fp8"),
        ({"mamba_block_size": "8", "enable_prefix_caching": "false"}, "mamba_block_size", "needs"),
    ],
)
def test_contradictory_pair_of_options_is_found(options: dict[str, str], name: str, what: str) -> None:
    ((path, why),) = found(**options)
    assert path == name
    assert what in why


def test_degree_of_the_recipe_is_compared() -> None:
    ((name, what),) = found(degree=4, tensor_parallel_size="2")
    assert (name, what) == ("tensor_parallel_size", "2 contradicts tensor_parallel_degree, 4")
    assert found(degree=2, tensor_parallel_size="2") == []


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_num_seqs": "8", "max_rolling_batch_size": "8"},
        {"max_num_batched_tokens": "2048", "max_model_len": "8192"},
        {"max_num_batched_tokens": "banana", "max_num_seqs": "16"},
        {"enable_auto_tool_choice": "false"},
        {"max_loras": "4", "enable_lora": "yes"},
        {"mamba_block_size": "8"},
        {"quantize": "awq", "dtype": "auto"},
        {"speculative_config": '{"method": "ngram", "num_speculative_tokens": 4}'},
        {"speculative_config": '{"method": "mtp"}'},
        {"attention_config": '{"flash_attn_version": 2}', "attention_backend": "FLASH_ATTN"},
    ],
)
def test_compatible_options_are_accepted(options: dict[str, str]) -> None:
    assert found(**options) == []


def test_dtypes_of_a_method_depend_on_the_version() -> None:
    assert found(27, quantize="awq", dtype="bf16") != []
    assert found(28, quantize="awq", dtype="bf16") == []


@pytest.mark.parametrize(
    ("image", "method", "what"),
    [
        (15, "", ""),
        (16, "", "vLLM 0.10.2 refuses draft models"),
        (19, "draft_model", "vLLM 0.14.0 refuses draft models"),
        (20, "", "vLLM 0.15.1 takes a draft model only with its method"),
        (20, "draft_model", ""),
        (22, "", ""),
        (16, "eagle3", ""),
    ],
)
def test_draft_model_needs_a_vllm_that_has_them(image: int, method: str, what: str) -> None:
    table = {"model": "org/small", "num_speculative_tokens": 3, **({"method": method} if method else {})}
    mistakes = found(image, speculative_config=json.dumps(table))
    assert [words.startswith(what) for _, words in mistakes] == ([True] if what else []), mistakes
