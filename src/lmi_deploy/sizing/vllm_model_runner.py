"""What vLLM allocates outside of `gpu_memory_utilization`: which of its two model runners a model gets, its CUDA graphs
and its sampler's state.

Source: vllm 0.22.1 to 0.26.0 (PyPI wheels), config/vllm.py `use_v2_model_runner` and `_set_cudagraph_sizes`;
v1/worker/gpu/model_runner.py `profile_cudagraph_memory` (0 in the second runner) and `_dummy_sampler_run`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from lmi_deploy.domain.byte_units import GIB, MIB
from lmi_deploy.sizing.memory_demand import SizingCase

GRAPHS_COUNTED: Final = (0, 20)
"""From here on the first model runner takes CUDA graphs off the budget (0.20.1, envs.py,
VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS)."""
_FIRST_V1: Final = (0, 8)
_OLD_GRAPHS: Final = GIB
"""Before V1: "CUDA graphs can take additional 1~3 GiB memory per GPU" (0.6.3.post1, worker/model_runner.py)."""
_GRAPH: Final = 8 * MIB
"""The most that one captured graph takes in the logs of the planner's study: 1.03 GiB of 134 graphs (gpt-oss-120b on
vLLM 0.11); the least is 1 MiB. djl-serving's pull request 3056 prints 0.44 GiB of 54 and 0.64 GiB of 86."""
_LARGEST_GRAPH: Final = 512
_NAMED: Final = {
    (0, 22): ("Qwen3ForCausalLM",),
    (0, 23): ("Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"),
    (0, 24): (
        *("Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"),
        *("DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM"),
    ),
    (0, 25): ("DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM"),
    (0, 26): (
        *("DeepseekV2ForCausalLM", "GraniteMoeForCausalLM", "InklingForCausalLM", "Qwen2MoeForCausalLM"),
        *("InklingForConditionalGeneration", "LongcatFlashNgramForCausalLM"),
    ),
}
"""Classes that get the second runner by their name, by version."""
_PLAIN_ONLY_BEFORE: Final = (0, 24)
"""Before, only without experts and quantisation."""
_DENSE_SINCE: Final = (0, 25)
"""From here on every model without experts gets it, unless it has layers of a state space."""
_SWITCH: Final = "vllm_use_v2_model_runner"
_DRAFTS: Final = ("eagle", "eagle3", "mtp", "dflash", "dspark")


def is_second_runner(subject: SizingCase) -> bool:
    """Whether vLLM's second model runner runs the model, which keeps CUDA graphs and the sampler's state outside of
    the budget."""
    request, shape = subject.request, subject.shape
    if request.text(_SWITCH):
        return request.is_on(_SWITCH)
    known = [version for version in _NAMED if version <= request.vllm]
    method = request.table("speculative_config").get("method")
    if not known or shape.family.kind != "decoder" or (method is not None and method not in _DRAFTS):
        return False
    names = shape.whole.get("architectures")
    named = isinstance(names, list) and any(name in _NAMED[known[-1]] for name in names)
    if request.vllm < _PLAIN_ONLY_BEFORE:
        return named and not shape.experts and subject.quantization is None and not request.text("quantize")
    return named or (request.vllm >= _DENSE_SINCE and not shape.experts and not shape.family.state)


def graph_bytes(subject: SizingCase, sequences: int, tokens: int) -> int:
    """CUDA graphs of all sizes that vLLM captures: whole ones for decoding, in pieces for mixed steps."""
    request = subject.request
    config = request.table("compilation_config")
    if request.is_on("enforce_eager") or config.get("cudagraph_mode") in ("NONE", 0):
        return 0
    if request.vllm < _FIRST_V1:
        return _OLD_GRAPHS
    captured = _captured(subject, config, min(2 * sequences, _LARGEST_GRAPH))
    captured = [size for size in captured if size <= tokens]
    return _GRAPH * (len(captured) + sum(size <= sequences for size in captured))


def _captured(subject: SizingCase, config: Mapping[str, object], default: int) -> list[int]:
    """The sizes of batches that get a graph."""
    sizes = config.get("cudagraph_capture_sizes")
    if isinstance(sizes, list):
        return [size for size in sizes if isinstance(size, int)]
    largest = config.get("max_cudagraph_capture_size")
    most = (
        largest
        if isinstance(largest, int)
        else subject.request.whole("max_cudagraph_capture_size") or default
    )
    return [size for size in (1, 2, 4, *range(8, 256, 8), *range(256, most + 1, 16)) if size <= most]


def sampler_state_bytes(subject: SizingCase, sequences: int) -> int:
    """Tables of the second runner that exist before its first measurement: counts of each token, and a bit for each
    (0.23.0, v1/worker/gpu/sample/penalties.py)."""
    vocab = subject.shape.vocab
    return sequences * (4 * vocab + 4 * ceil(vocab / 32))
