"""What vLLM refuses, or silently ignores, in a LoRA adapter; known from its configuration and its tensors' headers.

Sources: vllm/lora/peft_helper.py (`validate_legal`) and vllm/lora/lora_model.py, 0.26.0; an adapter that changes no
module of the model answers as the model itself (vllm-project/vllm#55193).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.catalog.server_version import order, server_version
from lmi_deploy.domain.djl_serving import ENGINE_VERSION
from lmi_deploy.domain.gathered_facts import AdapterFacts, Facts, Tensors
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.engines.vllm.engine import ADAPTERS_BY_REQUEST_SINCE
from lmi_deploy.errors import Unresolvable

_PREFIX: Final = "base_model.model."
"""PEFT's, before the name of a module of the model."""
_LORA_A: Final = ".lora_A.weight"
_GREATEST_RANK: Final = 512

Found = tuple[str, str]
"""What is wrong, and what to do."""


def require_adapters(recipe: Recipe, facts: Facts) -> None:
    """Unresolvable with every mistake. What a handler of the user's own accepts is unknown."""
    if recipe.engine == "custom" or recipe.handler.file:
        return
    found = [
        (f"adapters.{adapter.name}: {what}", hint)
        for adapter in facts.adapters
        for what, hint in _mistakes(adapter, dict(recipe.options), facts)
    ]
    if found:
        (first, hint), *others = found
        raise Unresolvable(first, hint=hint, details=[f"{what}, {then}" for what, then in others])


def adapter_notes(recipe: Recipe, facts: Facts) -> tuple[str, ...]:
    """An adapter that states another base model, often the same under another name; and a server that mixes up
    adapters. Neither stops anything.
    """
    return (*_notes(recipe, facts), *_mixed_up(recipe, facts))


def _mixed_up(recipe: Recipe, facts: Facts) -> Iterator[str]:
    own = recipe.endpoint.target == "local" and recipe.container.image is None
    version = ENGINE_VERSION if own else server_version(recipe.container.version, recipe.container.image)[0]
    by_service = recipe.engine == "vllm" and not recipe.handler.file and not recipe.handler.builtin
    if facts.adapters and by_service and order(version) < ADAPTERS_BY_REQUEST_SINCE:
        yield (
            f"DJL's engine {version} ignores the adapter in a stream, and mixes up the adapters of simultaneous "
            "requests: send one request at a time, without streaming, or use an image of 0.36 or newer"
        )


def _notes(recipe: Recipe, facts: Facts) -> Iterator[str]:
    for adapter in facts.adapters:
        base = adapter.config.get("base_model_name_or_path")
        named = isinstance(base, str) and base.count("/") == 1 and not base.startswith((".", "/", "~"))
        if named and facts.listing.source == "hub" and str(base).lower() != recipe.model_id.lower():
            other = f"not for {recipe.model_id}"
            yield f"adapter {adapter.name} was trained for {base}, by its adapter_config.json, {other}"


def _mistakes(adapter: AdapterFacts, options: Mapping[str, str], facts: Facts) -> Iterator[Found]:
    yield from _configuration(adapter.config, adapter.listing.model_id)
    yield from _rank(adapter.config, options)
    if facts.tensors is not None:
        yield from _modules(adapter, facts.tensors)


def _configuration(config: Mapping[str, Any], model_id: str) -> Iterator[Found]:
    kind = config.get("peft_type", "LORA")
    if kind != "LORA":
        yield f"{model_id} is an adapter of the type {kind}; vLLM loads LoRA alone", "name a LoRA adapter"
    merge = "merge it into the model (PEFT's merge_and_unload), and deploy the result"
    if config.get("use_dora"):
        yield f"{model_id} uses DoRA, which vLLM does not support", merge
    if modules := config.get("modules_to_save"):
        words = ", ".join(map(str, modules)) if isinstance(modules, list) else str(modules)
        yield f"{model_id} replaces whole modules ({words}), which vLLM does not support", merge
    if config.get("bias", "none") != "none":
        yield f"{model_id} changes biases (bias: {config['bias']}), which vLLM does not support", merge


def _rank(config: Mapping[str, Any], options: Mapping[str, str]) -> Iterator[Found]:
    rank, limit = config.get("r"), options.get("max_lora_rank", "")
    if type(rank) is not int or rank < 1:
        yield "its adapter_config.json states no rank (r)", "name an adapter that PEFT wrote"
    elif rank > _GREATEST_RANK:
        yield f"its rank is {rank}; vLLM loads at most {_GREATEST_RANK}", "train it with a lower rank"
    elif limit.isdigit() and int(limit) < rank:
        hint = "omit options.max_lora_rank: lmi sets it from the adapters"
        yield f"its rank is {rank}, more than options.max_lora_rank, {limit}", hint


def _modules(adapter: AdapterFacts, model: Tensors) -> Iterator[Found]:
    """Compared by their names and their input sizes with the model's own tensors, where these are not quantized."""
    sizes = {
        name.removesuffix(".weight"): shape[-1]
        for headers in model.headers.values()
        for name, dtype, shape in headers
        if name.endswith(".weight") and len(shape) == 2 and dtype in ("F32", "F16", "BF16")
    }
    halves = {
        name.removeprefix(_PREFIX).removesuffix(_LORA_A): shape
        for name, _, shape in adapter.tensors
        if name.endswith(_LORA_A) and len(shape) == 2
    }
    if not sizes or not halves:
        return
    hint = "name an adapter that was trained for this model"
    kinds = {name.rpartition(".")[2] for name in sizes}
    if not any(name.rpartition(".")[2] in kinds for name in halves):
        example = next(iter(halves))
        yield f"it changes no module of the model (such as {example}): vLLM would ignore it", hint
    for name, shape in halves.items():
        if name in sizes and sizes[name] != shape[1]:
            yield f"{name} has {shape[1]} inputs, but {sizes[name]} in the model", hint
            return
