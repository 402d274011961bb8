"""Bytes of one number: of weights that are not quantised, and of the KV cache."""

from __future__ import annotations

from typing import Final

from lmi_deploy.sizing.architecture import Architecture
from lmi_deploy.sizing.sizing_request import SizingRequest
from lmi_deploy.sizing.tensors import CannotTell

_BYTES: Final[dict[str, int]] = {
    **dict.fromkeys(("fp16", "float16", "half", "f16", "bf16", "bfloat16"), 2),
    **dict.fromkeys(("fp32", "float32", "float", "f32"), 4),
    **dict.fromkeys(("int8",), 2),
}
_CACHE: Final[dict[str, float]] = {
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8"), 1.0),
    **dict.fromkeys(("fp16", "float16", "bf16", "bfloat16"), 2.0),
    **dict.fromkeys(("fp32", "float32"), 4.0),
}


def float_bytes(request: SizingRequest, shape: Architecture, *, keeps_float32: bool = False) -> int:
    """vLLM loads float32 checkpoints in 16 bits by default (vllm 0.11.0, config/model.py _get_and_verify_dtype);
    transformers keeps them.
    """
    requested = request.text("dtype").lower()
    if requested in ("", "auto"):
        stored = _BYTES.get((shape.dtype or "").removeprefix("torch.").lower(), 2)
        return stored if keeps_float32 else 2
    found = _BYTES.get(requested)
    if found is None:
        raise CannotTell(f"option dtype: {requested!r} is not a dtype that lmi knows")
    return found


def cache_item_bytes(request: SizingRequest, shape: Architecture) -> float:
    requested = request.text("kv_cache_dtype").lower()
    if requested in ("", "auto"):
        return float(float_bytes(request, shape))
    found = _CACHE.get(requested)
    if found is None:
        raise CannotTell(f"option kv_cache_dtype: {requested!r} is not a dtype that lmi knows")
    return found
