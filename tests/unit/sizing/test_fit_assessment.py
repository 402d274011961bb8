"""The verdict: compared with lines that engines printed, and for invalid input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.catalog.instances import instance
from lmi_deploy.catalog.packaged_prices import packaged
from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.sizing.devices import Devices, instance_devices, machine_devices, named_devices
from lmi_deploy.sizing.fit_assessment import Checkpoint, Fit, assess
from lmi_deploy.sizing.remedies import Remedy, remedies
from lmi_deploy.sizing.sizing_request import ENGINES, SizedEngine, SizingRequest, engine_version, normalized
from lmi_deploy.sizing.tensors import CannotTell, Tensor
from tests.support.model_shapes import (
    BERT,
    DEEPSEEK_V3,
    GEMMA_27B,
    GPT_OSS_20B,
    LLAMA_8B,
    LLAMA_70B,
    QWEN_7B,
    T5_XL,
    Table,
)

PRICES = packaged().of("us-east-1")
H100 = named_devices("H100", 1)
A10G = instance_devices("ml.g5.2xlarge")
V11 = SizingRequest(vllm=(0, 11), lmi=False)


def fit(table: Table, devices: Devices | None, request: SizingRequest = V11, **options: str) -> Fit:
    return assess(Checkpoint(table=table), replace(request, options=options), devices)


@pytest.mark.parametrize(
    ("table", "devices", "degree", "printed"),
    [
        (LLAMA_8B, H100, 1, 51.38),
        (GPT_OSS_20B, H100, 1, 50.28),
    ],
    ids=["Llama-3.1-8B", "gpt-oss-20b"],
)
def test_cache_size_matches_the_vllm_log(table: Table, devices: Devices, degree: int, printed: float) -> None:
    """The planner's study of vLLM 0.11 (llm-d-incubation/llm-d-planner, empirical-vllm-memory-results.md)."""
    found = fit(table, devices, replace(V11, degree=degree), gpu_memory_utilization="0.9")
    assert found.cache / GIB == pytest.approx(printed, rel=0.01)


L4 = instance_devices("ml.g6.12xlarge")


def test_second_model_runner_keeps_graphs_beside_the_budget() -> None:
    """djl-serving's pull request 3056: out of memory at 256 sequences, running at 128, 16.19 GiB for the cache."""
    many = fit(LLAMA_8B, L4, SizingRequest(vllm=(0, 23), degree=4), max_num_seqs="256")
    assert many.verdict == "tight"
    assert "leaves 1.76 GiB for the CUDA context, NCCL and graphs, which take about 1.56 GiB" in many.reason
    assert "graphs" not in many.parts
    assert many.cache / GIB == pytest.approx(16.19, rel=0.05)
    assert fit(LLAMA_8B, L4, SizingRequest(vllm=(0, 23), degree=4)).verdict == "fits"


@pytest.mark.parametrize(
    ("options", "version", "second"),
    [
        ({}, (0, 22), False),
        ({}, (0, 23), True),
        ({"quantize": "fp8"}, (0, 23), False),
        ({"quantize": "fp8"}, (0, 24), True),
        ({"speculative_config": '{"method": "ngram", "num_speculative_tokens": 3}'}, (0, 23), False),
        ({"vllm_use_v2_model_runner": "0"}, (0, 26), False),
    ],
)
def test_model_runner_depends_on_the_version(options: Table, version: tuple[int, int], second: bool) -> None:
    """vllm, config/vllm.py `use_v2_model_runner` of 0.22.1 to 0.26.0."""
    parts = fit(LLAMA_8B, H100, SizingRequest(vllm=version), **options).parts
    assert ("graphs" not in parts) is second


def test_model_with_experts_keeps_the_first_runner() -> None:
    assert "graphs" in fit(GPT_OSS_20B, H100, SizingRequest(vllm=(0, 26))).parts


@pytest.mark.parametrize(
    ("options", "mib"),
    [
        ({"max_num_seqs": "128"}, 8 * (19 + 35)),
        ({"max_num_seqs": "256"}, 8 * (35 + 51)),
        ({"compilation_config": '{"cudagraph_capture_sizes": [1, 2, 4]}'}, 8 * 6),
        ({"compilation_config": '{"cudagraph_mode": "NONE"}'}, 0),
        ({"enforce_eager": "true"}, 0),
    ],
)
def test_graphs_are_counted_by_their_captured_sizes(options: Table, mib: int) -> None:
    """vllm 0.23.0, config/vllm.py `_set_cudagraph_sizes`; the logs of 128 and 256 sequences print 19 and 35 of them for
    decoding."""
    found = fit(GPT_OSS_20B, H100, SizingRequest(vllm=(0, 23)), **options)
    assert found.parts.get("graphs", 0) == mib * 2**20


def test_context_larger_than_the_cache_does_not_fit() -> None:
    request = SizingRequest(vllm=(0, 6), context=131072)
    found = fit(LLAMA_8B, instance_devices("ml.g5.4xlarge"), request, gpu_memory_utilization="0.95")
    assert found.verdict == "does-not-fit"
    assert found.max_context == pytest.approx(45200, rel=0.03)  # what the log of LMI 0.31 says
    assert fit(LLAMA_8B, instance_devices("ml.g5.4xlarge"), replace(request, context=8192)).verdict == "fits"


def test_llama_70b_does_not_fit_one_small_gpu() -> None:
    found = fit(LLAMA_70B, A10G)
    assert (found.verdict, found.max_context, found.max_sequences) == ("does-not-fit", 0, 0)
    assert found.parts["weights"] > 131 * GIB


def test_parts_and_cache_sum_to_the_budget() -> None:
    found = fit(LLAMA_8B, H100)
    assert sum(found.parts.values()) + found.cache == found.budget
    assert found.budget == int(H100.memory * 0.9)


def test_all_requested_sequences_must_fit() -> None:
    request = replace(V11, context=8192)
    one = fit(LLAMA_8B, H100, request)
    assert fit(LLAMA_8B, H100, replace(request, sequences=one.max_sequences)).verdict != "does-not-fit"
    more = fit(LLAMA_8B, H100, replace(request, sequences=one.max_sequences + 1))
    assert more.verdict == "does-not-fit"
    assert more.max_context < 8192


def test_verdict_is_tight_with_little_memory_left() -> None:
    found = fit(LLAMA_8B, H100)
    exact = replace(
        V11, context=8192, sequences=fit(LLAMA_8B, H100, replace(V11, context=8192)).max_sequences
    )
    assert found.verdict == "fits"
    assert fit(LLAMA_8B, H100, exact).verdict == "tight"


@pytest.mark.parametrize("degree", [3, 5])
def test_degree_that_does_not_divide_the_heads_is_refused(degree: int) -> None:
    found = fit(LLAMA_8B, instance_devices("ml.g5.48xlarge"), replace(V11, degree=degree))
    assert found.verdict == "does-not-fit"
    assert f"degree {degree} does not divide the 32 attention heads; use " in found.reason


def test_degree_above_the_number_of_devices_is_refused() -> None:
    found = fit(LLAMA_8B, A10G, replace(V11, degree=2))
    assert (found.verdict, found.reason) == (
        "does-not-fit",
        "degree 2 needs more devices than ml.g5.2xlarge has: 1",
    )


def test_default_degree_is_the_largest_that_divides() -> None:
    assert fit(QWEN_7B, instance_devices("ml.g5.48xlarge")).degree == 4


@pytest.mark.parametrize(
    ("table", "missing"),
    [
        ({}, "config.json is missing"),
        ({"model_type": "llama"}, "config.json does not have num_hidden_layers, hidden_size"),
        ({**LLAMA_8B, "model_type": "tomorrow"}, "model_type tomorrow"),
        ({**LLAMA_8B, "num_hidden_layers": -3}, "num_hidden_layers is -3"),
        ({**LLAMA_8B, "hidden_size": "4096"}, "hidden_size is '4096'"),
        ({**LLAMA_8B, "num_attention_heads": True}, "num_attention_heads is True"),
        ({**LLAMA_8B, "max_position_embeddings": None}, "add --context L"),
        ({**DEEPSEEK_V3, "qk_nope_head_dim": None}, "kv_lora_rank without"),
        ({**LLAMA_8B, "vision_config": {"depth": 3}}, "vision or audio part"),
    ],
)
def test_missing_config_value_gives_unknown(table: Table, missing: str) -> None:
    found = fit(table, H100)
    assert found.verdict == "unknown"
    assert missing in found.reason


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"gpu_memory_utilization": "7"}, "not between"),
        ({"gpu_memory_utilization": "nan"}, "not between"),
        ({"max_model_len": "banana"}, "'banana' is not a number"),
        ({"max_num_seqs": "-4"}, "not between"),
        ({"max_num_seqs": "2.5"}, "not a whole number"),
        ({"kv_cache_dtype": "fp9"}, "'fp9'"),
        ({"dtype": "bf17"}, "'bf17'"),
    ],
)
def test_invalid_options_give_unknown(options: dict[str, str], missing: str) -> None:
    found = fit(LLAMA_8B, H100, V11, **options)
    assert found.verdict == "unknown"
    assert missing in found.reason


def test_missing_device_is_reported() -> None:
    assert "--gpu NAME --gpus N" in fit(LLAMA_8B, None).reason


def test_unknown_model_larger_than_all_devices_does_not_fit() -> None:
    checkpoint = Checkpoint(table={"model_type": "tomorrow"}, tensors=[Tensor("a", "BF16", (2**40,))])
    assert assess(checkpoint, V11, H100).verdict == "does-not-fit"
    small = replace(checkpoint, tensors=[Tensor("a", "BF16", (2**20,))])
    assert assess(small, V11, H100).verdict == "unknown"


def test_gguf_and_damaged_files_are_reported() -> None:
    assert "GGUF" in assess(Checkpoint(table=LLAMA_8B, gguf=True), V11, H100).reason
    damaged = Checkpoint(table=LLAMA_8B, trouble="model.safetensors: cut")
    assert assess(damaged, V11, H100).reason == "model.safetensors: cut"


def test_pickle_weights_are_counted_by_file_size() -> None:
    checkpoint = Checkpoint(table=LLAMA_8B, pickles=[10 * GIB, 5 * GIB])
    found = assess(checkpoint, V11, H100)
    assert found.parts["weights"] / GIB == pytest.approx(15, rel=0.01)


@pytest.mark.parametrize(
    ("quantize", "verdict"),
    [("", "does-not-fit"), ("fp8", "does-not-fit"), ("bitsandbytes", "fits")],
)
def test_quantising_while_loading_needs_memory_as_published(quantize: str, verdict: str) -> None:
    """fp8 needs room for the 16-bit weights first: 15 GiB do not go on a T4 (14.56 GiB)."""
    request = SizingRequest(vllm=(0, 11), context=2048)
    assert fit(LLAMA_8B, named_devices("T4", 1), request, quantize=quantize).verdict == verdict


def test_fp8_cache_has_twice_the_tokens() -> None:
    plain, small = fit(LLAMA_8B, H100), fit(LLAMA_8B, H100, V11, kv_cache_dtype="fp8")
    assert small.kv_tokens == pytest.approx(2 * plain.kv_tokens, rel=0.001)


def test_adapters_take_memory() -> None:
    plain = fit(LLAMA_8B, H100)
    lora = fit(LLAMA_8B, H100, V11, enable_lora="true", max_loras="4", max_lora_rank="64")
    # Rank 64 on all linear layers of an 8B is 168 million parameters.
    assert (plain.cache - lora.cache) / 4 == pytest.approx(168e6 * 2, rel=0.05)


GPT_J: Table = {
    "architectures": ["GPTJForCausalLM"],
    "model_type": "gptj",
    "n_embd": 4096,
    "n_head": 16,
    "n_layer": 28,
    "n_positions": 2048,
    "rotary_dim": 64,
    "vocab_size": 50400,
    "torch_dtype": "float16",
}
FLAN_T5_XXL: Table = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "num_layers": 24,
    "num_decoder_layers": 24,
    "num_heads": 64,
    "d_model": 4096,
    "d_kv": 64,
    "d_ff": 10240,
    "feed_forward_proj": "gated-gelu",
    "vocab_size": 32128,
    "torch_dtype": "float32",
}


@pytest.mark.parametrize(
    ("engine", "table", "instance", "dtype", "verdict"),
    [
        ("deepspeed", GPT_J, "ml.g4dn.2xlarge", "fp16", "fits"),
        ("deepspeed", GPT_J, "ml.p3.2xlarge", "fp16", "fits"),
        ("deepspeed", GPT_J, "ml.g4dn.2xlarge", "fp32", "does-not-fit"),
        ("fastertransformer", FLAN_T5_XXL, "ml.g5.12xlarge", "", "fits"),
        ("fastertransformer", FLAN_T5_XXL, "ml.g5.xlarge", "", "does-not-fit"),
    ],
)
def test_published_systems_fit_where_they_were_published(
    engine: SizedEngine, table: Table, instance: str, dtype: str, verdict: str
) -> None:
    found = fit(table, instance_devices(instance), SizingRequest(engine=engine), dtype=dtype)
    assert found.verdict == verdict, found.reason


def test_other_engines_use_their_own_rules() -> None:
    neuron = SizingRequest(engine="neuronx", degree=24)
    found = fit(LLAMA_70B, instance_devices("ml.inf2.48xlarge"), neuron)
    assert (found.verdict, found.context, found.budget) == ("fits", 4096, 16 * GIB)
    assert (
        fit(LLAMA_70B, instance_devices("ml.inf2.8xlarge"), SizingRequest(engine="neuronx")).verdict
        == "does-not-fit"
    )
    assert fit(LLAMA_70B, H100, neuron).verdict == "unknown"
    assert fit(LLAMA_70B, instance_devices("ml.inf2.48xlarge")).verdict == "unknown"
    trt = SizingRequest(engine="tensorrt-llm", context=4096)
    assert fit(LLAMA_70B, instance_devices("ml.p4d.24xlarge"), trt).verdict == "fits"
    assert fit(LLAMA_70B, instance_devices("ml.g5.12xlarge"), trt).verdict == "does-not-fit"
    accelerate = SizingRequest(engine="accelerate", context=2048)
    assert fit(T5_XL, named_devices("A10G", 1), accelerate).verdict == "fits"
    assert fit(LLAMA_70B, instance_devices("ml.g5.12xlarge"), accelerate).verdict == "does-not-fit"


def test_cpu_uses_host_memory_and_a_fixed_cache() -> None:
    found = fit(LLAMA_8B, instance_devices("ml.m5.4xlarge"), SizingRequest(vllm=(0, 11), context=8192))
    assert (found.verdict, found.cache) == ("fits", 4 * GIB)
    assert (
        fit(LLAMA_8B, instance_devices("ml.m5.xlarge"), SizingRequest(context=8192)).verdict == "does-not-fit"
    )
    accelerate = SizingRequest(engine="accelerate", context=512)
    assert fit(BERT, instance_devices("ml.m5.large"), accelerate).verdict == "fits"


def test_every_remedy_makes_the_model_fit() -> None:
    devices, request = instance_devices("ml.g6e.12xlarge"), SizingRequest(vllm=(0, 23))
    checkpoint = Checkpoint(table=LLAMA_70B)
    named = remedies(checkpoint, request, devices, assess(checkpoint, request, devices), PRICES)
    assert [one.key for one in named][:2] == ["max_model_len", "kv_cache_dtype"]
    assert named[-1].key == "instance_type"
    for one in named:
        assert assess(checkpoint, *_applied(one, request, devices)).verdict == "fits", one


def test_gpu_memory_utilization_is_a_remedy_even_if_given() -> None:
    devices = instance_devices("ml.g6.12xlarge")
    request = SizingRequest(vllm=(0, 23), options={"max_num_seqs": "256", "gpu_memory_utilization": "0.92"})
    checkpoint = Checkpoint(table=LLAMA_8B)
    named = remedies(checkpoint, request, devices, assess(checkpoint, request, devices), PRICES)
    assert [(one.key, one.value) for one in named if one.key == "gpu_memory_utilization"] == [
        ("gpu_memory_utilization", "0.85")
    ]


def _applied(one: Remedy, request: SizingRequest, devices: Devices) -> tuple[SizingRequest, Devices]:
    if one.key == "instance_type":
        return request, instance_devices(one.value)
    if one.key == "tensor_parallel_degree":
        return replace(request, degree=int(one.value)), devices
    if one.key == "max_model_len":
        return replace(request, context=int(one.value)), devices
    return replace(request, options={**request.options, one.key: one.value}), devices


@pytest.mark.parametrize(
    ("options", "config", "reason"),
    [
        (
            {"dtype": "bf16"},
            {},
            "dtype bf16 needs compute capability 8.0 in vLLM 0.28.0, and NVIDIA T4 has 7.5",
        ),
        ({"quantize": "marlin"}, {}, ""),
        ({}, {"quantization_config": {"quant_method": "mxfp4"}}, "quantisation mxfp4 of the model needs"),
        (
            {"attention_backend": "FLASH_ATTN"},
            {},
            "attention_backend FLASH_ATTN needs compute capability 8.0",
        ),
        ({"dtype": "fp16"}, {}, ""),
    ],
)
def test_device_that_cannot_run_the_model_does_not_fit(options: Table, config: Table, reason: str) -> None:
    found = fit({**QWEN_7B, **config}, named_devices("T4", 2), SizingRequest(context=2048), **options)
    assert found.reason.startswith(reason)
    assert (found.verdict == "does-not-fit") is bool(reason)
    if reason:
        a10g = fit({**QWEN_7B, **config}, named_devices("A10G", 2), SizingRequest(context=2048), **options)
        assert "compute capability" not in a10g.reason


def test_own_machine_is_judged_by_its_compute_capability() -> None:
    t4 = Machine(
        memory=64 * GIB, cores=8, accelerators=(("Tesla T4", 15360 * 2**20),), compute_capability=7.5
    )
    found = fit(QWEN_7B, machine_devices(t4), SizingRequest(), dtype="bfloat16")
    assert (found.verdict, "Tesla T4 has 7.5" in found.reason) == ("does-not-fit", True)


def test_compressed_keys_do_not_run_on_a_cpu() -> None:
    machine, request = instance_devices("ml.m5.4xlarge"), SizingRequest(context=2048)
    found = fit(DEEPSEEK_V3, machine, request)
    assert found.reason.startswith("vLLM does not run models with compressed keys (MLA) on a CPU")
    later = fit(DEEPSEEK_V3, machine, replace(request, vllm=(9, 0)))
    assert later.verdict in ("unknown", "does-not-fit")
    assert "does not run" not in later.reason


def test_whole_keys_run_on_a_cpu_and_take_more_memory() -> None:
    small = DEEPSEEK_V3 | {"num_hidden_layers": 2, "n_routed_experts": 4, "vocab_size": 1000}
    machine, request = instance_devices("ml.m5.24xlarge"), SizingRequest(context=2048)
    whole = fit(small, machine, request, vllm_mla_disable="1")
    assert whole.verdict in ("fits", "tight")
    # Two layers of 128 heads, keys and values 192 wide, in 2 bytes.
    assert whole.token_bytes == 2 * 128 * 192 * 2 * 2
    compressed = fit(small, instance_devices("ml.p4d.24xlarge"), request)
    assert compressed.token_bytes < whole.token_bytes / 50


def test_larger_degree_is_a_remedy() -> None:
    devices, request = instance_devices("ml.g5.12xlarge"), SizingRequest(degree=1)
    checkpoint = Checkpoint(table=LLAMA_8B)
    named = remedies(checkpoint, request, devices, assess(checkpoint, request, devices), PRICES)
    assert "tensor_parallel_degree" in [one.key for one in named]


def test_fitting_model_has_no_remedies() -> None:
    checkpoint = Checkpoint(table=LLAMA_8B)
    assert remedies(checkpoint, V11, H100, assess(checkpoint, V11, H100), PRICES) == ()


@pytest.mark.parametrize(
    ("name", "gib"), [("T4", 14.56), ("a10g", 21.98), ("NVIDIA A100-40GB", 39.38), ("RTX 4090", 23.52)]
)
def test_named_accelerators_have_the_memory_torch_reports(name: str, gib: float) -> None:
    assert named_devices(name, 1).memory == int(gib * GIB)


@pytest.mark.parametrize(("name", "why"), [("A100", "A100-40GB and A100-80GB"), ("Voodoo2", "lmi knows T4")])
def test_ambiguous_or_unknown_accelerator_is_an_error(name: str, why: str) -> None:
    with pytest.raises(CannotTell, match=why):
        named_devices(name, 1)


def test_unreported_gpu_memory_is_estimated_low() -> None:
    found = instance_devices("ml.p6-b300.48xlarge")
    assert found.estimated
    stated = instance("ml.p6-b300.48xlarge")
    assert stated is not None
    assert stated.accelerators is not None
    assert found.memory < 0.95 * stated.accelerators.memory


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (None, ((0, 28), True)),
        ("0.36.0", ((0, 23), True)),
        ("0.36.0-lmi20.0.0-cu128", ((0, 15), True)),
        ("lmi16", ((0, 10), True)),
        ("0.31.0", ((0, 6), True)),
        ("0.38.0-lmi29.0.0-cu130", ((0, 28), True)),
        ("vllm-0.11.0", ((0, 11), False)),
        ("vllm-0.23.1", ((0, 23), False)),
        ("0.6.3.post1", ((0, 6), False)),
    ],
)
def test_image_version_determines_the_vllm_version(
    text: str | None, version: tuple[tuple[int, int], bool]
) -> None:
    assert engine_version(text) == version


def test_unknown_image_version_is_an_error() -> None:
    with pytest.raises(CannotTell, match="does not know its vLLM version"):
        engine_version("banana")


def test_option_spellings_are_normalised() -> None:
    found = normalized({"option.max_rolling_batch_size": "64", "gpu-memory-utilization": "0.8"})
    assert (found["max_num_seqs"], found["gpu_memory_utilization"]) == ("64", "0.8")


_TABLES = [LLAMA_8B, LLAMA_70B, QWEN_7B, DEEPSEEK_V3, GPT_OSS_20B, GEMMA_27B, T5_XL, BERT]
_VALUES: Any = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**70),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(-2, 5), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@pytest.mark.parametrize("table", [LLAMA_8B, T5_XL], ids=["decoder", "encoder-decoder"])
def test_absurd_number_of_layers_is_unknown(table: Table) -> None:
    for key in ("num_hidden_layers", "num_layers", "num_decoder_layers"):
        if key in table:
            found = assess(
                Checkpoint(table={**table, key: 2**39}), SizingRequest(engine=ENGINES["vllm"]), H100
            )
            assert found.verdict == "unknown"
            assert f"{key} is {2**39}" in found.reason


@pytest.mark.hypothesis
@given(
    table=st.sampled_from(_TABLES),
    changes=st.dictionaries(
        st.sampled_from(sorted({key for table in _TABLES for key in table} | {"layer_types", "text_config"})),
        _VALUES,
        min_size=1,
        max_size=3,
    ),
    engine=st.sampled_from(sorted(ENGINES)),
)
def test_damaged_config_always_gives_a_verdict(table: Table, changes: Table, engine: str) -> None:
    request = SizingRequest(engine=ENGINES[engine], context=2048)
    found = assess(Checkpoint(table={**table, **changes}), request, H100, limits=False)
    assert found.verdict in ("fits", "tight", "does-not-fit", "unknown")
    assert found.reason


@pytest.mark.hypothesis
@given(
    table=st.sampled_from([LLAMA_8B, LLAMA_70B, QWEN_7B, GPT_OSS_20B, DEEPSEEK_V3]),
    gib=st.integers(10, 200),
    context=st.integers(1, 131072),
    engine=st.sampled_from(["vllm", "tensorrt-llm", "accelerate"]),
)
def test_more_memory_or_shorter_sequences_never_worsen_the_verdict(
    table: Table, gib: int, context: int, engine: str
) -> None:
    order = ("does-not-fit", "tight", "fits")
    request = SizingRequest(engine=ENGINES[engine], vllm=(0, 11), context=context)
    devices = replace(H100, memory=gib * GIB, count=8, name="A100")
    checkpoint = Checkpoint(table=table)
    offset = order.index(assess(checkpoint, request, devices, limits=False).verdict)
    larger = replace(devices, memory=(gib + 10) * GIB)
    assert order.index(assess(checkpoint, request, larger, limits=False).verdict) >= offset
    shorter = replace(request, context=max(1, context // 2))
    assert order.index(assess(checkpoint, shorter, devices, limits=False).verdict) >= offset


@pytest.mark.hypothesis
@given(table=st.sampled_from(_TABLES), sequences=st.integers(1, 300), degree=st.sampled_from([1, 2, 4, 8]))
def test_longest_context_fits(table: Table, sequences: int, degree: int) -> None:
    devices = named_devices("H100", 8)
    request = SizingRequest(vllm=(0, 11), sequences=sequences, degree=degree, context=1024)
    found = assess(Checkpoint(table=table), request, devices)
    if found.max_context:
        existing = assess(Checkpoint(table=table), replace(request, context=found.max_context), devices)
        assert existing.verdict != "does-not-fit"
