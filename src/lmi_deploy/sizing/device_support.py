"""What the vLLM of a request refuses to run on a device: dtypes, quantisation and attention by compute capability, and
compressed keys on a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.catalog import vllm_arguments
from lmi_deploy.sizing.architecture import read_architecture
from lmi_deploy.sizing.devices import Devices
from lmi_deploy.sizing.sizing_request import NEWEST_VLLM, SizingRequest
from lmi_deploy.sizing.tensors import CannotTell

BF16_SINCE: Final = 8.0
"""vllm/platforms/cuda.py, check_if_supports_dtype."""
BFLOAT16: Final = ("bf16", "bfloat16")


def unsupported(table: Mapping[str, Any], request: SizingRequest, devices: Devices) -> str:
    """The first reason; empty if it runs, or if that is unknown. `table` is config.json."""
    if request.engine != "vllm":
        return ""
    if devices.kind == "cpu":
        return _refused_on_cpu(table, request)
    if devices.compute_capability is None:
        return ""
    image = vllm_arguments.image_of(request.vllm)
    for what, least in _needs(table, request, devices, image):
        if least is not None and devices.compute_capability < least:
            has = f"{devices.name} has {devices.compute_capability:.1f}"
            return f"{what} needs compute capability {least:.1f} in vLLM {vllm_arguments.version(image)}, and {has}"
    return ""


def _refused_on_cpu(table: Mapping[str, Any], request: SizingRequest) -> str:
    """vllm 0.10.2 to 0.26.0, platforms/cpu.py, get_attn_backend_cls. CannotTell for a later version: vLLM's pull
    request 49453 (2026-08) adds MLA on a CPU."""
    if request.is_on("vllm_mla_disable") or not _is_latent(table):
        return ""
    if request.vllm > NEWEST_VLLM:
        raise CannotTell("lmi does not know whether this vLLM runs compressed keys (MLA) on a CPU")
    return (
        "vLLM does not run models with compressed keys (MLA) on a CPU; with VLLM_MLA_DISABLE=1 in "
        "container.environment it stores whole keys, which it runs there"
    )


def _is_latent(table: Mapping[str, Any]) -> bool:
    try:
        return bool(read_architecture(table).latent)
    except CannotTell:
        return False


def _needs(
    table: Mapping[str, Any], request: SizingRequest, devices: Devices, image: int
) -> list[tuple[str, float | None]]:
    """Each thing asked for, and the least compute capability that it needs."""
    dtype, method = request.text("dtype").lower(), request.text("quantize").lower()
    backend = request.text("attention_backend").upper()
    span = vllm_arguments.backend_support(backend, image)
    stored = stored_method(table)
    # On this machine lmi installs vLLM itself, with more kernels.
    built = vllm_arguments.least_capability(image) if request.lmi and devices.instance else None
    return [
        ("the LMI image", built),
        (f"dtype {dtype}", BF16_SINCE if dtype in BFLOAT16 else None),
        (f"quantize {method}", vllm_arguments.quantization_capability(method, image)),
        (f"quantisation {stored} of the model", vllm_arguments.quantization_capability(stored, image)),
        (f"attention_backend {backend}", span[0] if span else None),
    ]


def stored_method(table: Mapping[str, Any]) -> str:
    """The quantisation of the checkpoint as config.json names it; empty: not quantised."""
    found = table.get("quantization_config") or table.get("compression_config")
    return str(found.get("quant_method") or "").lower() if isinstance(found, Mapping) else ""
