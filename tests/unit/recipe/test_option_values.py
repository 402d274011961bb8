"""Values of options, by the vLLM version of the recipe's image."""

from __future__ import annotations

import pytest

from lmi_deploy.catalog.server_version import Server, shipped_server
from lmi_deploy.errors import RecipeError
from lmi_deploy.recipe.checks.json_fields import field_mistakes
from lmi_deploy.recipe.checks.notices import notices
from lmi_deploy.recipe.checks.option_values import value_mistake
from tests.support.recipe_parsing import parse

NEWEST = Server("0.38.0", 29)

RECIPE = """\
name: chat
model_id: Qwen/Qwen2.5-7B-Instruct
engine: vllm
instance_type: ml.g5.xlarge
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gpu_memory_utilization", "0.9"),
        ("gpu_memory_utilization", "1"),
        ("gpu_memory_utilization", "9e-1"),
        ("max_model_len", "8192"),
        ("max_model_len", "8k"),
        ("max_model_len", "1.5K"),
        ("max_model_len", "auto"),
        ("max_model_len", "-1"),
        ("max_num_seqs", "1_000"),
        ("max_num_seqs", "None"),
        ("kv_cache_dtype", "fp8_e4m3"),
        ("quantize", "AWQ"),
        ("quantization", "fp8"),
        ("attention_backend", "flash_attn"),
        ("optimization_level", "2"),
        ("enforce_eager", "True"),
        ("compilation_config", "3"),
        ("kv_transfer_config", '{"cpu_bytes_to_use": 80m}'),
        ("limit_mm_per_prompt", '{"image": 2}'),
        ("served_model_name", "a b"),
        ("distributed_executor_backend", "my.module.Executor"),
        ("generation_config", "anything"),
        ("never_heard_of", "anything"),
    ],
)
def test_valid_value_is_accepted(name: str, value: str) -> None:
    assert value_mistake(name, value, NEWEST) is None


@pytest.mark.parametrize(
    ("name", "value", "what", "hint"),
    [
        ("gpu_memory_utilization", "90", "90 is out of range: more than 0, at most 1", "write 0.9"),
        ("gpu_memory_utilization", "0", "0 is out of range: more than 0, at most 1", ""),
        ("gpu_memory_utilization", "nan", "'nan' is not a number", "more than 0"),
        ("gpu_memory_utilization", "90%", "'90%' is not a number", ""),
        ("max_model_len", "0", "0 is out of range: at least 1", "write 1"),
        ("max_model_len", "8192.0", "'8192.0' is not a whole number", "write 8192"),
        ("max_model_len", "8,192", "'8,192' is not a whole number", "write 8192"),
        ("max_model_len", "8192 tokens", "'8192 tokens' is not a whole number", "write 8192"),
        ("max_model_len", "8192\n", "contains a line break", "write 8192"),
        ("max_num_batched_tokens", "2k5", "is not a whole number", ""),
        ("tensor_parallel_size", "0", "0 is out of range: at least 1", "write 1"),
        ("max_lora_rank", "48", "is not one of 1, 8, 16", ""),
        ("kv_cache_dtype", "fp16", "is not one of auto, float16", "did you mean"),
        ("load_format", "safetensor", "is not one of", "did you mean safetensors?"),
        ("enforce_eager", "1", "is not true or false", "write true"),
        ("enable_prefix_caching", "perhaps", "is not true or false", ""),
        ("speculative_config", "[1]", "is JSON, but not an object: '[1]'", ""),
        ("speculative_config", '{"a": 1', "at its line 1, column 8", ""),
        ("override_generation_config", "{'a': 1}", "at its line 1, column 2", "double quotes"),
        ("speculative_config", "{" * 200_000, "is not JSON", ""),
        ("reasoning_parser", "deepseek-r1", "is not one of", "did you mean deepseek_r1?"),
        ("max_rolling_batch_prefill_tokens", "-5", "out of range: at least 1", "write 1"),
    ],
)
def test_invalid_value_is_reported_with_a_suggestion(name: str, value: str, what: str, hint: str) -> None:
    mistake = value_mistake(name, value, NEWEST)
    assert mistake is not None
    assert what in mistake[0]
    assert hint in mistake[1]


@pytest.mark.parametrize(
    ("name", "value", "image", "right"),
    [
        ("limit_mm_per_prompt", "image=2", 14, True),
        ("limit_mm_per_prompt", "image=two", 14, False),
        ("limit_mm_per_prompt", "image=2", 28, False),
        ("block_size", "24", 15, False),
        ("block_size", "24", 28, True),
        ("quantize", "aqlm", 15, True),
        ("quantize", "aqlm", 28, False),
        ("quantize", "mxfp4", 15, False),
        ("quantize", "mxfp4", 27, True),
        ("max_model_len", "8k", 14, False),
        ("max_model_len", "8k", 16, True),
        ("max_num_seqs", "-4", 14, False),
        ("kv_cache_dtype", "nvfp4", 27, True),
        ("kv_cache_dtype", "nvfp4", 20, False),
    ],
)
def test_valid_values_depend_on_the_image_version(name: str, value: str, image: int, right: bool) -> None:
    assert (value_mistake(name, value, Server("0.36.0", image)) is None) == right


@pytest.mark.parametrize(
    ("version", "image", "local", "server"),
    [
        (None, None, False, "0.38.0/lmi29"),
        ("0.36.0", None, False, "0.36.0/lmi27"),
        ("0.36.0-lmi28", None, False, "0.36.0/lmi28"),
        ("0.34.0", None, False, "0.34.0/lmi16"),
        ("0.36.0", None, True, "0.36.0"),
        (None, None, True, "None"),
        (None, "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1", False, "None"),
        (
            None,
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.35.0-lmi17.0.0-cu128",
            False,
            "0.35.0/lmi17",
        ),
    ],
)
def test_recipe_is_checked_against_the_image_it_deploys(
    version: str | None, image: str | None, local: bool, server: str
) -> None:
    assert str(shipped_server("vllm", version, image, local=local)) == server


def refused(text: str) -> str:
    with pytest.raises(RecipeError) as caught:
        parse(text, "chat.yaml")
    return "\n".join(map(str, caught.value.problems))


def test_option_removed_from_vllm_is_refused_for_the_newest_image() -> None:
    old, new = "container: {version: 0.34.0}\n", ""
    options = "options: {swap_space: 4}\n"
    parse(RECIPE + old + options, "chat.yaml")
    found = refused(RECIPE + new + options)
    assert "swap_space: removed in 0.36.0/lmi23: vllm on server 0.38.0/lmi29" in found


NEWER = "container: {image: '763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.39.0-lmi30.0.0-cu130'}\n"


def test_image_newer_than_the_table_gives_a_notice() -> None:
    (told,) = notices(parse(RECIPE + NEWER + "options: {max_num_seqs: 4}\n", "chat.yaml"))
    assert "vLLM 0.28.0 (0.38.0-lmi29)" in told
    assert "0.39.0/lmi30" in told
    for known in ("", "container: {version: 0.38.0}\n", "container: {version: 0.36.0-lmi28}\n"):
        assert notices(parse(RECIPE + known + "options: {max_num_seqs: 4}\n", "chat.yaml")) == ()


def test_options_are_those_of_the_image_that_a_recipe_gets_without_a_version() -> None:
    """vLLM 0.28: a parser and an argument are new, a quantization is removed."""
    for fresh in ("tool_call_parser: kimi_k3", "enable_fault_tolerance: true"):
        parse(f"{RECIPE}options: {{{fresh}}}\n", "chat.yaml")
        assert refused(f"{RECIPE}container: {{version: 0.36.0-lmi28}}\noptions: {{{fresh}}}\n")
    removed = "options: {quantization: bitsandbytes}\n"
    assert "'bitsandbytes' is not one of" in refused(RECIPE + removed)
    parse(f"{RECIPE}container: {{version: 0.36.0-lmi28}}\n{removed}", "chat.yaml")


def test_unknown_option_of_a_newer_image_gives_a_notice() -> None:
    fresh = "options: {quite_unheard_thing: 4}\n"
    told = notices(parse(RECIPE + NEWER + fresh, "chat.yaml"))
    assert "lmi does not know whether 0.39.0/lmi30 supports quite_unheard_thing" in told[1]
    assert "unknown to vllm" in refused(RECIPE + "container: {version: 0.36.0-lmi28}\n" + fresh)
    assert "did you mean max_num_seqs" in refused(RECIPE + NEWER + "options: {max_num_seq: 4}\n")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (
            "speculative_config",
            '{"method": "ngram", "num_speculative_tokens": "4", "prompt_lookup_max": 4.0}',
        ),
        ("compilation_config", '{"cudagraph_mode": "piecewise", "mode": 3, "pass_config": {"enable_sp": 1}}'),
        ("compilation_config", "3"),
        ("kv_transfer_config", '{"kv_connector": "Mine", "kv_connector_module_path": "mine"}'),
        ("kv_transfer_config", '{"kv_connector": "NixlConnector", "kv_buffer_size": 80m, "kv_rank": null}'),
        ("limit_mm_per_prompt", '{"image": 2, "smell": 1, "video": {"count": 1, "num_frames": 8}}'),
        ("override_generation_config", '{"temperature": 0, "eos_token_id": [1, 2]}'),
        ("hf_overrides", '{"rope_parameters": {"rope_type": "yarn", "factor": 4.0}, "my_own": 1}'),
        ("additional_config", '{"anything": {"goes": true}}'),
        ("never_heard_of", '{"a": 1}'),
    ],
)
def test_right_fields_of_json_options_pass(name: str, value: str) -> None:
    assert [*field_mistakes(name, value, NEWEST)] == []


@pytest.mark.parametrize(
    ("name", "value", "what", "hint"),
    [
        (
            "speculative_config",
            '{"num_speculative_token": 4}',
            "num_speculative_token: unknown to vLLM 0.28.0",
            "did you mean num_speculative_tokens?",
        ),
        ("speculative_config", '{"xyz": 4}', "xyz: unknown to vLLM 0.28.0", ""),
        (
            "speculative_config",
            '{"tensor_parallel_size": 1}',
            "tensor_parallel_size: unknown",
            "draft_tensor",
        ),
        (
            "speculative_config",
            '{"method": "ngrams"}',
            "method: 'ngrams' is not one of ngram, medusa",
            "ngram?",
        ),
        (
            "speculative_config",
            '{"prompt_lookup_max": 0}',
            "prompt_lookup_max: 0 is out of range: at least 1",
            "1",
        ),
        ("speculative_config", '{"model": 7}', "model: 7 is not text", 'write "7"'),
        (
            "speculative_config",
            '{"prompt_lookup_max": [4]}',
            "prompt_lookup_max: [4] is not a single value",
            "",
        ),
        (
            "compilation_config",
            '{"cudagraph_capture_sizes": 8}',
            "cudagraph_capture_sizes: 8 is not a list",
            "[8]",
        ),
        ("compilation_config", '{"pass_config": true}', "pass_config: true is not an object", ""),
        (
            "compilation_config",
            '{"pass_config": {"enable_spp": 1}}',
            "pass_config.enable_spp: unknown",
            "enable_sp",
        ),
        ("compilation_config", '{"use_inductor_graph_partition": 2}', "2 is not true or false", ""),
        (
            "kv_transfer_config",
            '{"kv_role": "kv_bot"}',
            "kv_role: 'kv_bot' is not one of",
            "did you mean kv_both?",
        ),
        (
            "kv_transfer_config",
            '{"kv_connector": "NixlConector"}',
            "is not one of",
            "did you mean NixlConnector?",
        ),
        ("limit_mm_per_prompt", '{"image": "two"}', "image: 'two' is not a whole number", ""),
        ("limit_mm_per_prompt", '{"video": {"num_frame": 8}}', "video.num_frame: unknown", "num_frames"),
        (
            "override_generation_config",
            '{"temprature": 1}',
            "temprature: unknown",
            "did you mean temperature?",
        ),
        (
            "override_generation_config",
            '{"top_p": 7}',
            "top_p: 7 is out of range: more than 0, at most 1",
            "write 1",
        ),
        (
            "hf_overrides",
            '{"rope_parameters": {"rope_type": "yarm"}}',
            "rope_parameters.rope_type: 'yarm'",
            "yarn",
        ),
    ],
)
def test_wrong_fields_of_json_options_are_refused(name: str, value: str, what: str, hint: str) -> None:
    found = [*field_mistakes(name, value, NEWEST)]
    assert len(found) == 1
    assert what in f"{found[0][0]}: {found[0][1]}"
    assert hint in found[0][2]


def test_fields_are_those_of_the_image_that_ships() -> None:
    value = '{"level": 3, "full_cuda_graph": true}'
    assert [*field_mistakes("compilation_config", value, Server("0.34.0", 16))] == []
    assert len([*field_mistakes("compilation_config", value, NEWEST)]) == 2
    # A newer image than the table's may know them; what looks like a slip is named all the same.
    newer = Server("0.39.0", 30)
    assert [*field_mistakes("speculative_config", '{"xyz": 4}', newer)] == []
    assert len([*field_mistakes("speculative_config", '{"methd": "ngram"}', newer)]) == 1
