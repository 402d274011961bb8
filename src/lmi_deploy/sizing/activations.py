"""Memory of one forward pass and of the sampler, as in an engine's profiling run, computed from the shapes of the
model.

Derived from the vendors' own layers (vllm 0.11.0: model_executor/models/llama.py, layers/fused_moe/fused_moe.py,
v1/worker/gpu_model_runner.py `_dummy_sampler_run`, v1/sample/ops/topk_topp_sampler.py), not fitted.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from lmi_deploy.sizing.architecture import Architecture
from lmi_deploy.sizing.synthesized_tensors import is_sparse

SORTED_LOGIT_BYTES: Final = 38
"""A logit while top-p sorts all of them: 2 from the model, 4 as float32, 4 sorted, 8 their indices, and 20 of
torch's segmented sort (values 4, two lists of segment and index, 8 each)."""
LOGIT_BYTES: Final = 18
"""The same where a kernel selects without sorting (v1/sample/ops/topk_topp_triton.py): 2, 4, the kernel's buffer 4,
probabilities 4, the exponentials they are divided by 4."""
PLAIN_LOGIT_BYTES: Final = 6
"""The same where the profiling run selects nothing (v1/worker/gpu/model_runner.py `_dummy_sampler_run`): 2, 4."""
_EXPERT_CHUNK: Final = 32768
"""Tokens that fused_moe takes at once (vllm 0.11.0, envs.py VLLM_FUSED_MOE_CHUNK_SIZE)."""
_LATENT_WORKSPACE: Final = 64 * 1024
"""Tokens whose compressed keys are expanded at once (vllm 0.11.0, v1/attention/backends/mla/common.py)."""


def forward_bytes(shape: Architecture, tokens: int, degree: int, *, item: int = 2) -> int:
    """The layer with the widest buffers, with the hidden state, the residual and one copy beside it."""
    around = 3 * shape.hidden
    dense = shape.number("intermediate_size_mlp") or shape.intermediate
    wide = (3 if shape.family.gated else 2) * ceil(dense / degree)
    total = tokens * (max(wide, _attention(shape, degree)) + around)
    if shape.experts and any(is_sparse(shape, index) for index in range(shape.layers)):
        chosen, inner = shape.experts_per_token, ceil(shape.moe_intermediate / degree)
        routed = min(tokens, _EXPERT_CHUNK) * chosen * (max(2 * inner, shape.hidden) + inner)
        total = max(total, routed + tokens * around)
    if shape.latent:
        expanded = ceil(shape.heads / degree) * (
            shape.number("qk_nope_head_dim") + shape.number("v_head_dim")
        )
        total += min(tokens * 8, _LATENT_WORKSPACE) * expanded
    return total * item


def _attention(shape: Architecture, degree: int) -> int:
    """Queries, keys, values and the output of one token, in items."""
    size = shape.head_dim
    if shape.latent:
        size = shape.number("qk_nope_head_dim") + shape.number("qk_rope_head_dim")
    heads = ceil(shape.heads / degree)
    keys = heads if shape.latent else max(1, shape.kv_heads // degree)
    return (2 * heads + 2 * keys) * size


def sampler_bytes(shape: Architecture, sequences: int, tokens: int, *, logit: int, item: int = 2) -> int:
    """Logits of every sequence at once, with the hidden state of the step kept beside them."""
    return sequences * shape.vocab * logit + tokens * shape.hidden * item


def rope_bytes(shape: Architecture, item: int = 2) -> int:
    """The table of rotary positions, which every device has."""
    if shape.positions is None or shape.family.kind != "decoder":
        return 0
    return shape.positions * min(shape.head_dim, shape.number("qk_rope_head_dim") or shape.head_dim) * item
