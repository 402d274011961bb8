"""Defaults that the LMI image changes: a text-generation model on an image with vLLM is served in async mode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
SERVICES = {
    "vllm": "djl_python.lmi_vllm.vllm_async_service",
    "trtllm": "djl_python.lmi_trtllm.trtllm_async_service",
}


def recommended(folder: Path, merged: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Keys that the image adds if the model does not set them; it reads the model's config.json for it."""
    architectures = _architectures(folder, merged)
    if architectures is None:
        return {}
    found: dict[str, str] = {}
    if merged.get("batch_size", "1") != "1":
        found["option.rolling_batch"] = "disable"
    elif _asynchronous(architectures, merged, environ):
        found |= {"option.rolling_batch": "disable", "option.async_mode": "true"}
    return found


def service(environ: Mapping[str, str]) -> str | None:
    """The built-in handler of the image's engine, by its SERVING_FEATURES."""
    features = environ.get("SERVING_FEATURES", "").split(",")
    return next((SERVICES[name] for name in SERVICES if name in features), None)


def is_engine(entry_point: str) -> bool:
    """Whether this handler loads vLLM or TensorRT-LLM, which fill a device and serve many requests at once."""
    return entry_point in SERVICES.values()


def _asynchronous(architectures: list[str], merged: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    generates = any(name.endswith(GENERATES) for name in architectures)
    return generates and merged.get("option.rolling_batch", "auto") == "auto" and service(environ) is not None


def _architectures(folder: Path, merged: Mapping[str, str]) -> list[str] | None:
    for place in (folder, Path(merged.get("option.model_id", "")) if "option.model_id" in merged else folder):
        try:
            described = json.loads((place / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(described, dict):
            return [str(name) for name in described.get("architectures") or ()]
    return None
