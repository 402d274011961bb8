"""What an option of vLLM asks of a GPU, by its compute capability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lmi_deploy.catalog import vllm_arguments
from lmi_deploy.catalog.instances import chosen
from lmi_deploy.catalog.server_version import recipe_server
from lmi_deploy.domain.json_option import json_option
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.recipe.checks.option_values import image_of
from lmi_deploy.sizing.device_support import BF16_SINCE, BFLOAT16

FP8_SINCE: Final = 8.9
"""Compute in 8 bits; below, vLLM keeps fp8 weights in 8 bits and computes in 16 (Marlin)."""
_FLASH_ATTENTION: Final = {"2": 8.0, "3": 9.0, "4": 9.0}
"""FlashAttention's own requirement by its version (vllm_flash_attn/flash_attn_interface.py)."""
_A100_IMAGES: Final = 17
"""Up to this LMI image FlashAttention 3 ran on 8.0, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """`option` is the key to change, without its group."""

    option: str
    what: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """`image` is the LMI image whose vLLM runs the model."""

    options: Mapping[str, str]
    environment: Mapping[str, str]
    image: int

    @property
    def vllm(self) -> str:
        """The version of that vLLM."""
        return vllm_arguments.version(self.image)

    def text(self, *names: str) -> tuple[str, str]:
        """The first of several spellings that is given, with its value."""
        return next(((name, self.options[name].strip()) for name in names if name in self.options), ("", ""))


def engine_settings(recipe: Recipe) -> EngineSettings:
    """An unknown image counts as the newest known one."""
    return EngineSettings(
        options=dict(recipe.options),
        environment=dict(recipe.container.environment),
        image=image_of(recipe_server(recipe)),
    )


def rated_devices(recipe: Recipe) -> Iterator[tuple[str, str, float]]:
    """The recipe's instance types with their device, where its compute capability is known."""
    for machine in chosen(recipe):
        existing = machine.accelerators
        if existing is not None and existing.compute_capability:
            yield machine.name, existing.name, existing.compute_capability


def device_mistakes(settings: EngineSettings, device: str, capability: float) -> Iterator[Mistake]:
    """What the vLLM of that image refuses on such a device."""
    has = f"{device} has compute capability {capability:.1f}"
    dtype = settings.options.get("dtype", "").strip().lower()
    if dtype in BFLOAT16 and capability < BF16_SINCE:
        what = f"{dtype} needs compute capability {BF16_SINCE:.1f}, but {has}"
        yield Mistake(option="dtype", what=what, hint="write fp16, or use a type such as ml.g5.xlarge")
    option, method = settings.text("quantize", "quantization")
    needed = vllm_arguments.quantization_capability(method, settings.image)
    if needed is not None and capability < needed:
        what = f"{method} needs compute capability {needed:.1f} in vLLM {settings.vllm}, but {has}"
        yield Mistake(option=option, what=what, hint=_instead_of(settings.image, capability))
    yield from _backends(settings, has, capability)
    yield from _flash_attention(settings, has, capability)


def device_notes(settings: EngineSettings, device: str, capability: float) -> Iterator[str]:
    """What such a device does in another way."""
    _, method = settings.text("quantize", "quantization")
    if method.lower() in ("fp8", "ptpc_fp8") and capability < FP8_SINCE:
        yield (
            f"{device} cannot compute in fp8 (it has compute capability {capability:.1f}, fp8 needs {FP8_SINCE:.1f}): "
            "vLLM stores the weights in 8 bits and computes in 16 (Marlin), which saves memory but no time"
        )
    if settings.options.get("kv_cache_dtype", "").startswith("fp8") and capability < FP8_SINCE:
        yield (
            f"{device} cannot compute in fp8: only some attention backends of vLLM "
            f"{settings.vllm} support an fp8 KV cache there, and lmi does not know which one "
            "vLLM will choose for this model"
        )


def _instead_of(image: int, capability: float) -> str:
    usual = [
        method
        for method in ("awq", "gptq", "bitsandbytes", "fp8")
        if (vllm_arguments.quantization_capability(method, image) or 0) <= capability
    ]
    return f"use a method that runs there: {', '.join(usual)}" if usual else ""


def _backends(settings: EngineSettings, has: str, capability: float) -> Iterator[Mistake]:
    config = json_option(settings.options, "attention_config").get("backend")
    for option, name in (
        ("attention_backend", settings.options.get("attention_backend", "")),
        ("attention_config", config if isinstance(config, str) else ""),
        ("VLLM_ATTENTION_BACKEND", settings.environment.get("VLLM_ATTENTION_BACKEND", "")),
    ):
        span = vllm_arguments.backend_support(name.strip().upper(), settings.image)
        if span and not span[0] <= capability <= span[1]:
            most = f" to {span[1]:.1f}" if span[1] < 90 else ""
            what = f"{name.strip()} needs compute capability {span[0]:.1f}{most}, but {has}"
            yield Mistake(
                option=option, what=what, hint="omit it: vLLM then chooses a backend that runs there"
            )


def _flash_attention(settings: EngineSettings, has: str, capability: float) -> Iterator[Mistake]:
    for option, value in (
        ("attention_config", json_option(settings.options, "attention_config").get("flash_attn_version")),
        ("VLLM_FLASH_ATTN_VERSION", settings.environment.get("VLLM_FLASH_ATTN_VERSION")),
    ):
        needed = _FLASH_ATTENTION.get(str(value))
        if capability == BF16_SINCE and settings.image <= _A100_IMAGES and str(value) == "3":
            continue
        if needed is not None and capability < needed:
            what = f"FlashAttention {value} needs compute capability {needed:.1f}, but {has}"
            yield Mistake(option=option, what=what, hint="omit it")
