"""Which DJLServing a recipe means, by its version or its image."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lmi_deploy.catalog import images
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import Unresolvable

FAMILIES: Final = {
    "vllm": "djl-lmi",
    "accelerate": "djl-lmi",
    "custom": "djl-lmi",
    "lmi-dist": "djl-lmi",
    "tensorrt-llm": "djl-tensorrtllm",
    "neuronx": "djl-neuronx",
    "deepspeed": "djl-deepspeed",
    "fastertransformer": "djl-fastertransformer",
    "neuron": "huggingface-neuron",
    "vllm-server": "vllm",
    "sglang": "sglang",
    "tei": "huggingface-tei",
    "triton": "sagemaker-tritonserver",
}
"""The images of an engine; a test compares it with the engines."""


@dataclass(frozen=True, slots=True)
class EngineSpan:
    """The servers whose images contain an engine, from `first` to `last`, and what replaces it on newer ones."""

    first: str
    last: str
    successor: str


SPANS: Final = {
    "lmi-dist": EngineSpan("0.23.0", "0.32.0", "engine: vllm"),
    "tensorrt-llm": EngineSpan("0.25.0", "0.33.0", "engine: vllm"),
    "neuronx": EngineSpan("0.22.1", "0.29.0", "engine: vllm on a GPU type"),
    "deepspeed": EngineSpan("0.19.0", "0.27.0", "engine: vllm (text-generation) or accelerate (other tasks)"),
    "fastertransformer": EngineSpan(
        "0.21.0", "0.24.0", "engine: accelerate (T5 and other encoder-decoder models) or vllm (GPT models)"
    ),
}
"""Engines that no image of today contains. Source: djl-serving's branches and the table of images, 2026-11-20. The
server of 0.33 takes lmi-dist for vLLM.
"""
MODEL_ID_SINCE: Final = (0, 22)
"""Older servers download a model from S3 only if `option.s3url` names it."""
_BEFORE_LMI: Final = "djl-deepspeed"
"""The family with LMI's packages before djl-lmi began."""
_LMI_SINCE: Final = (0, 28)
_IN_DEEPSPEED_IMAGES: Final = ("accelerate", "custom", "lmi-dist")
_ANY_REGION: Final = "us-east-1"
"""The list of all published images."""
_VERSION = re.compile(r"([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})(?:-lmi([0-9]{1,3})\b)?")


def server_tag(version: str | None, image: str | None) -> str:
    """The recipe's version, else the tag of an image of AWS's; empty: neither is given."""
    return version or (image.rpartition(":")[2] if image and "/djl-inference:" in image else "")


def server_version(version: str | None, image: str | None) -> tuple[str, str]:
    """DJLServing's version and the number of the LMI image, from the recipe; empty: not given.

    `0.36.0-lmi20.0.0-cu128`, a version or the tag of an image of AWS's, is a server 0.36.0 in the image lmi20.
    """
    found = _VERSION.match(server_tag(version, image))
    return (found[1], found[2] or "") if found else ("", "")


@dataclass(frozen=True, slots=True)
class Server:
    """A DJLServing, and the number of its LMI image where it has one."""

    number: str
    image: int | None = None

    def __str__(self) -> str:
        return self.number if self.image is None else f"{self.number}/lmi{self.image}"


def order(version: str) -> tuple[int, ...]:
    """Of a server's version, to compare; one without a number (`latest`, or none) is the newest."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (999,)


def require_engine(engine: str, version: str) -> None:
    """Raises Unresolvable, with the successor, if the images of the server `version` do not contain the engine."""
    span, number = SPANS.get(engine), server_version(version, None)[0]
    if span is None or not number or order(span.first) <= order(number) <= order(span.last):
        return
    what = f"engine {engine} is in the images of DJLServing {span.first} to {span.last}, not of {number}"
    raise Unresolvable(what, hint=f"write container.version: {span.last}, or use {span.successor}")


def engine_image(engine: str, version: str, region: str, *, device: str = "gpu") -> images.Image:
    """The image of an engine for a server version, or for the newest one that contains it. `device` matters for a
    family with images for several.

    Raises Unresolvable if there is none.
    """
    require_engine(engine, version)
    family = FAMILIES.get(engine, "djl-lmi")
    if engine in _IN_DEEPSPEED_IMAGES and version and order(version) < _LMI_SINCE:
        family = _BEFORE_LMI
    if device == "cpu" and f"{family}-cpu" in images.families():
        family = f"{family}-cpu"
    span = SPANS.get(engine)
    return images.image(family, version or (span.last if span else ""), region, device=device)


def recipe_server(recipe: Recipe) -> Server | None:
    """`shipped_server` of a complete recipe."""
    container, local = recipe.container, recipe.endpoint.target == "local"
    return shipped_server(recipe.engine, container.version, container.image, local=local)


def shipped_server(engine: str, version: str | None, image: str | None, *, local: bool) -> Server | None:
    """The server of the very image that a recipe ships. None: it is unknown, as in an image of the user's own.

    Without a version it is the newest image of the family; on this machine lmi has its own.
    """
    if image is None and not local:
        with suppress(Unresolvable):
            version = engine_image(engine, version or "", _ANY_REGION).tag
    number, lmi = server_version(version, image)
    return Server(number, int(lmi) if lmi else None) if number else None
