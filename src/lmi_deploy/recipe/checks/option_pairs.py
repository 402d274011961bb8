"""Options that contradict each other, or that need another one: vLLM or DJLServing refuses them when it starts.

Sources: the validators of vllm/config (0.26.0) and djl_python/properties_manager/vllm_rb_properties.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lmi_deploy.catalog import vllm_arguments
from lmi_deploy.catalog.server_version import Server
from lmi_deploy.domain.speculative_decoding import SPECULATIVE_CONFIG, draft_model, speculation_settings
from lmi_deploy.recipe.checks.option_values import image_of, number_of

Found = tuple[str, str, str]
"""The option to change, what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Given:
    """The options of a recipe with its degree; `image` is the LMI image whose vLLM reads them."""

    options: Mapping[str, str]
    degree: int | None
    image: int

    def number(self, *names: str) -> tuple[str, int | None]:
        """The first of several spellings that is a number."""
        for name in names:
            found = number_of(self.options.get(name, ""), "size")
            if found is not None:
                return name, int(found)
        return "", None

    def text(self, name: str) -> str:
        return self.options.get(name, "").strip().lower()

    def is_on(self, name: str) -> bool:
        return self.text(name) in ("true", "1", "yes", "on", "t", "y")

    def is_off(self, name: str) -> bool:
        return self.text(name) == "false"


_SEQUENCES: Final = ("max_num_seqs", "max_rolling_batch_size")
_STEP: Final = ("max_num_batched_tokens", "max_rolling_batch_prefill_tokens")
_SPELLINGS: Final = (
    ("tensor_parallel_size", "tensor_parallel_degree"),
    ("pipeline_parallel_size", "pipeline_parallel_degree"),
    ("max_num_seqs", "max_rolling_batch_size"),
    ("quantization", "quantize"),
    ("max_num_batched_tokens", "max_rolling_batch_prefill_tokens"),
    ("cpu_offload_gb", "cpu_offload_gb_per_gpu"),
)
_NEED: Final = (
    ("enable_eplb", "enable_expert_parallel"),
    ("enable_auto_tool_choice", "tool_call_parser"),
    ("enable_reasoning", "reasoning_parser"),
    ("numa_bind_nodes", "numa_bind"),
    ("numa_bind_cpus", "numa_bind"),
    ("max_loras", "enable_lora"),
    ("max_lora_rank", "enable_lora"),
    ("max_cpu_loras", "enable_lora"),
    ("lora_dtype", "enable_lora"),
    ("fully_sharded_loras", "enable_lora"),
    ("long_lora_scaling_factors", "enable_lora"),
    ("mamba_block_size", "enable_prefix_caching"),
)
"""The second must be there; the first is refused, or has no effect, without it."""
_FLAGS: Final = ("enable_expert_parallel", "numa_bind", "enable_lora", "enable_prefix_caching")
_ON_BY_ITSELF: Final = {"enable_prefix_caching": 15}
"""The LMI image from which vLLM switches it on itself."""
_WITHOUT_DRAFT_MODELS: Final = range(16, 20)
"""NotImplementedError in vllm/config/speculative.py from 0.10.0 (vllm-project/vllm#22047) to 0.14.0; draft models are
back in 0.15 (vllm-project/vllm#24322). Wheels of 0.10.2, 0.11.1, 0.14.0 and 0.15.1 read on 2026-11-23.
"""
_DRAFT_METHOD_BY_NAME: Final = (20, 21)
"""The LMI images whose vLLM (0.15.1, 0.16.0) does not take a model without a method for a draft model; 0.17.0 does."""
_EXCLUSIVE: Final = (
    ("attention_backend", "attention_config", "backend"),
    ("enable_flashinfer_autotune", "kernel_config", "enable_flashinfer_autotune"),
    ("cudagraph_capture_sizes", "compilation_config", "cudagraph_capture_sizes"),
    ("max_cudagraph_capture_size", "compilation_config", "max_cudagraph_capture_size"),
)
"""An option, and a field of a JSON option that means the same."""


def given(options: Mapping[str, str], degree: int | None, server: Server | None) -> Given:
    """An unknown image counts as the newest known one."""
    return Given(options, degree, image_of(server))


def pair_mistakes(given: Given) -> Iterator[Found]:
    for rule in _RULES:
        yield from rule(given)


def _two_spellings(given: Given) -> Iterator[Found]:
    values = dict(given.options)
    if given.degree is not None:
        values["tensor_parallel_degree"] = str(given.degree)
    for theirs, ours in _SPELLINGS:
        if theirs in given.options and ours in values and values[theirs].strip() != values[ours].strip():
            yield theirs, f"{values[theirs]} contradicts {ours}, {values[ours]}", "remove one of them"


def _needs(given: Given) -> Iterator[Found]:
    for name, other in _NEED:
        if name not in given.options or given.is_off(name):
            continue
        if other not in _FLAGS and other not in given.options:
            yield name, f"needs {other}", f"add {other}"
        elif other in _FLAGS and not given.is_on(other):
            by_itself = given.image >= _ON_BY_ITSELF.get(other, 999) and not given.is_off(other)
            if not by_itself:
                yield name, f"needs {other}: true", f"add {other}: true, or omit it"


def _limits(given: Given) -> Iterator[Found]:
    step_name, step = given.number(*_STEP)
    _, sequences = given.number(*_SEQUENCES)
    _, length = given.number("max_model_len")
    if step is not None and sequences is not None and step < sequences:
        what = f"{step} is less than the number of sequences, {sequences}: a step needs one token for each sequence"
        yield step_name, what, f"write {sequences} or more"
    if step is not None and length is not None and step < length and given.is_off("enable_chunked_prefill"):
        what = f"{step} is less than max_model_len, {length}, and vLLM cannot split prompts (enable_chunked_prefill)"
        yield step_name, what, f"write {length} or more, or remove enable_chunked_prefill"
    for low, high in (
        ("max_loras", "max_cpu_loras"),
        ("max_long_partial_prefills", "max_num_partial_prefills"),
    ):
        least, most = given.number(low)[1], given.number(high)[1]
        if least is not None and most is not None and least > most:
            yield low, f"{least} is more than {high}, {most}", f"write {most} or less"
    _, threshold = given.number("long_prefill_token_threshold")
    if threshold is not None and length is not None and threshold > length:
        what = f"{threshold} is more than max_model_len, {length}"
        yield "long_prefill_token_threshold", what, f"write {length} or less"


def _partial_prefills(given: Given) -> Iterator[Found]:
    name, most = given.number("max_num_partial_prefills")
    if most is not None and most > 1 and given.is_off("enable_chunked_prefill"):
        yield name, f"{most} needs enable_chunked_prefill", "remove enable_chunked_prefill"


def _pipeline(given: Given) -> Iterator[Found]:
    name, stages = given.number("pipeline_parallel_degree", "pipeline_parallel_size")
    if stages is not None and stages != 1:
        what = f"{stages}: DJLServing runs vLLM with one pipeline stage only"
        yield name, what, "write 1, and divide the model with tensor_parallel_degree"


def _batching(given: Given) -> Iterator[Found]:
    _, size = given.number("batch_size")
    streams = given.text("enable_streaming") not in ("", "false")
    if size is not None and size > 1 and streams and given.text("rolling_batch") in ("", "disable"):
        what = "batch_size is more than 1, and the server cannot stream a dynamic batch"
        yield "enable_streaming", what, "write false, or remove batch_size"


def _drafts(given: Given) -> Iterator[Found]:
    """Methods that do not say themselves how many tokens they draft (vllm/config/speculative.py)."""
    table = given.options.get("speculative_config", "")
    without = '"num_speculative_tokens"' not in table and "spec_tokens" not in given.options
    if without and re.search(r'"method"\s*:\s*"(ngram|draft_model)"', table):
        yield "speculative_config", "has no num_speculative_tokens", 'such as "num_speculative_tokens": 4'


def _draft_models(given: Given) -> Iterator[Found]:
    if not draft_model(given.options):
        return
    option, vllm = SPECULATIVE_CONFIG, vllm_arguments.version(given.image)
    if given.image in _WITHOUT_DRAFT_MODELS:
        what = f"vLLM {vllm} refuses draft models: those of LMI images 16 to 19 have none"
        yield (
            option,
            what,
            "use container.version 0.36.0 or newer, or another method, such as ngram or eagle3",
        )
    elif given.image in _DRAFT_METHOD_BY_NAME and "method" not in speculation_settings(given.options):
        yield option, f"vLLM {vllm} takes a draft model only with its method", 'add "method": "draft_model"'


def _twice(given: Given) -> Iterator[Found]:
    for name, table, field in _EXCLUSIVE:
        if name in given.options and f'"{field}"' in given.options.get(table, ""):
            yield name, f"{table} also sets {field}, and vLLM accepts only one of them", "remove one of them"


def _activation_dtype(given: Given) -> Iterator[Found]:
    method = given.text("quantize") or given.text("quantization")
    found = vllm_arguments.quantization_support(method, given.image)
    dtype = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32"}
    wanted = dtype.get(given.text("dtype"), given.text("dtype"))
    if found and found[1] and wanted not in ("", "auto") and wanted not in found[1]:
        what = f"{given.options['dtype']} cannot be used with {method}, which computes in {' or '.join(found[1])}"
        yield "dtype", what, f"omit it, or write {found[1][-1]}"


def _bitsandbytes(given: Given) -> Iterator[Found]:
    method = given.text("quantize") or given.text("quantization")
    if given.text("load_format") == "bitsandbytes" and method not in ("", "bitsandbytes"):
        yield "load_format", f"bitsandbytes cannot be used with {method}", "omit it"


_RULES: Final[tuple[Callable[[Given], Iterator[Found]], ...]] = (
    _two_spellings,
    _needs,
    _limits,
    _partial_prefills,
    _pipeline,
    _batching,
    _drafts,
    _draft_models,
    _twice,
    _activation_dtype,
    _bitsandbytes,
)
