"""What vLLM refuses of a model at its start: known from config.json before anything is deployed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.catalog import accelerators, vllm_arguments
from lmi_deploy.catalog.instances import chosen
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.speculative_decoding import draft_model
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.compute_capability import (
    EngineSettings,
    Mistake,
    device_mistakes,
    device_notes,
    engine_settings,
    rated_devices,
)
from lmi_deploy.recipe.checks.option_values import number_of
from lmi_deploy.sizing.architecture import read_architecture
from lmi_deploy.sizing.device_support import stored_method
from lmi_deploy.sizing.tensors import CannotTell

_FROM_CHECKPOINT: Final = frozenset(
    (
        *("aqlm", "awq", "awq_marlin", "auto_awq", "gptq", "gptq_marlin", "auto_gptq", "gptq_marlin_24"),
        *(
            "gptq_bitblas",
            "squeezellm",
            "marlin",
            "qqq",
            "hqq",
            "compressed-tensors",
            "modelopt",
            "modelopt_fp4",
        ),
        *("modelopt_mxfp8", "modelopt_mixed", "petit_nvfp4", "nvfp4", "gguf", "quark"),
    )
)
"""Methods that read weights quantised before; the others of vLLM can quantise while they load."""
_FAMILIES: Final = ("awq", "gptq", "compressed-tensors", "bitsandbytes", "mxfp4", "modelopt", "fp8")
_ANY_CHECKPOINT: Final = ("humming", "inc", "moe_wna16", "ipex", "torchao", "marlin")
"""Methods that take over checkpoints of others."""
_CONFIG_FILES: Final = ("quantize_config.json", "quant_config.json", "hf_quant_config.json")
_SAME_CLASS: Final = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForRewardModel",
    "RewardModel",
    "EmbeddingModel",
    "ChatModel",
    "LMHeadModel",
    "Model",
)
"""vLLM adapts a generating class to these (model_executor/models/adapters.py)."""
_FLOAT16_REFUSED: Final = ("gemma2", "gemma3", "gemma3_text", "plamo2", "glm4")
"""vllm 0.26.0, config/model.py, _FLOAT16_NOT_SUPPORTED_MODELS: numerical instability."""
_REFUSED_SINCE: Final = 16
_FLOAT16: Final = ("fp16", "float16", "half")
_ABOVE: Final = ("engine", "instance_type", "model_id")
"""Keys of the recipe itself, not of its options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReview:
    """What the engine refuses of a recipe's model, and what it does in another way or lmi cannot tell."""

    mistakes: tuple[Mistake, ...] = ()
    notes: tuple[str, ...] = ()

    def require(self) -> None:
        """Unresolvable with every mistake."""
        if self.mistakes:
            first, *others = self.mistakes
            raise Unresolvable(
                f"{path_of(first)}: {first.what}",
                hint=first.hint,
                details=[f"{path_of(other)}: {other.what}, {other.hint}" for other in others],
            )


def is_above_options(mistake: Mistake) -> bool:
    """Whether it is about the class of the model or the device, not about an option."""
    return mistake.option in _ABOVE


def path_of(mistake: Mistake) -> str:
    """The key of the recipe."""
    return mistake.option if is_above_options(mistake) else f"options.{mistake.option}"


def has_known_rules(recipe: Recipe) -> bool:
    """Whether lmi knows what the engine refuses: what a handler of the user's does is unknown."""
    return recipe.engine == "vllm" and not recipe.handler.file


def review_model(
    recipe: Recipe,
    config: Mapping[str, Any],
    *,
    machine: Machine | None = None,
    files: Collection[str] = (),
    draft: Mapping[str, Any] | None = None,
) -> ModelReview:
    """`config` is the model's config.json, `draft` the one of its draft model; `machine` is this one, for target
    local."""
    if not has_known_rules(recipe):
        return ModelReview()
    settings = engine_settings(recipe)
    mistakes = [*model_mistakes(config, settings, files=files)]
    notes = [*model_notes(config, settings)]
    refused = []
    for instance, device, capability in rated_devices(recipe):
        notes += device_notes(settings, device, capability)
        refused.append(checkpoint_needs(config, settings, f"{device} of {instance}", capability))
    if any(refused):
        what, hint = next(filter(None, refused)), "use a type such as ml.g5.xlarge or ml.g6.xlarge"
        mistakes.append(Mistake(option="instance_type", what=what, hint=hint))
    if machine is not None and machine.accelerators and machine.compute_capability is not None:
        own = f"the {machine.accelerators[0][0]} of this machine"
        mistakes += device_mistakes(settings, own, machine.compute_capability)
        notes += device_notes(settings, own, machine.compute_capability)
    if draft and config and (found := draft_mistake(config, draft, draft_model(dict(recipe.options)))):
        mistakes.append(found)
    if (recipe.tensor_parallel_degree or 2) > 1:
        notes += [
            f"the devices of {one.name} are connected by PCIe, not NVLink: a divided model is slower"
            for one in chosen(recipe)
            if accelerators.links(one.name) == "PCIe"
        ]
    return ModelReview(mistakes=tuple(mistakes), notes=tuple(dict.fromkeys(notes)))


def model_mistakes(
    config: Mapping[str, Any], settings: EngineSettings, *, files: Collection[str] = ()
) -> Iterator[Mistake]:
    """What the vLLM of that image refuses. A config without the fields has no mistakes."""
    if not config:
        return
    yield from _architecture(config, settings)
    yield from _length(config, settings)
    yield from _quantization(config, settings, files)
    dtype = settings.options.get("dtype", "").strip().lower()
    model_type = config.get("model_type")
    if dtype in _FLOAT16 and model_type in _FLOAT16_REFUSED and settings.image >= _REFUSED_SINCE:
        what = f"vLLM {settings.vllm} refuses {dtype} for {model_type}: the activations overflow"
        yield Mistake(option="dtype", what=what, hint="write bf16, or omit it")


def model_notes(config: Mapping[str, Any], settings: EngineSettings) -> Iterator[str]:
    """What lmi cannot tell of a model."""
    names = _classes(config)
    if not names or _known(names, settings.image) or list(_architecture(config, settings)):
        return
    yield (
        f"vLLM {settings.vllm} has no implementation of {names[0]}: it uses the one of "
        "transformers, if there is one; lmi cannot check this"
    )


def checkpoint_needs(
    config: Mapping[str, Any], settings: EngineSettings, device: str, capability: float
) -> str:
    """Why the quantisation of a checkpoint does not run on a device; empty if it does, or if that is unknown."""
    method = stored_method(config)
    least = vllm_arguments.quantization_capability(method, settings.image)
    if least is None or capability >= least:
        return ""
    return (
        f"the model is quantized with {method}, which needs compute capability {least:.1f} in vLLM "
        f"{settings.vllm}, and {device} has {capability:.1f}"
    )


def draft_mistake(config: Mapping[str, Any], draft: Mapping[str, Any], name: str) -> Mistake | None:
    """A draft model that does not speak the vocabulary of the model."""
    sizes = [_vocabulary(table) for table in (config, draft)]
    if None in sizes or sizes[0] == sizes[1]:
        return None
    what = (
        f"the draft model {name} has a vocabulary of {sizes[1]} tokens, but the model has {sizes[0]}: vLLM refuses "
        "different vocabularies"
    )
    return Mistake(
        option="speculative_config", what=what, hint="name a draft model of the same family, or method: ngram"
    )


def _vocabulary(table: Mapping[str, Any]) -> int | None:
    try:
        return read_architecture(table).vocab
    except CannotTell:
        size = table.get("vocab_size")
        return size if type(size) is int else None


def _classes(config: Mapping[str, Any]) -> list[str]:
    names = config.get("architectures")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _known(names: Collection[str], image: int) -> bool:
    return any(vllm_arguments.architecture_known(form, image) for name in names for form in _forms(name))


def _forms(name: str) -> Iterator[str]:
    """The class itself, and the generating class that vLLM adapts."""
    yield name
    for ending in _SAME_CLASS:
        if name.endswith(ending):
            yield f"{name.removesuffix(ending)}ForCausalLM"


def _architecture(config: Mapping[str, Any], settings: EngineSettings) -> Iterator[Mistake]:
    names = _classes(config)
    if not names or _known(names, settings.image):
        return
    runs_by_transformers = vllm_arguments.runs_transformers(settings.image) and not config.get(
        "is_encoder_decoder"
    )
    if runs_by_transformers:
        return
    spans = [
        span for name in names for form in _forms(name) for span in vllm_arguments.architecture_images(form)
    ]
    past = [until for _, until in spans if until is not None and until <= settings.image]
    later = [since for since, _ in spans if since > settings.image]
    if past:
        hint = f"use an image before lmi{max(past)}, which supports it, or engine: accelerate"
    elif later:
        hint = f"use an image from lmi{min(later)} on, which supports it"
    else:
        hint = "use engine: accelerate"
    kind = ", an encoder-decoder" if config.get("is_encoder_decoder") else ""
    yield Mistake(option="engine", what=f"vLLM {settings.vllm} does not support {names[0]}{kind}", hint=hint)


def _length(config: Mapping[str, Any], settings: EngineSettings) -> Iterator[Mistake]:
    text = settings.options.get("max_model_len", "")
    number = number_of(text, "size")
    overridden = any(key in settings.options for key in ("hf_overrides", "rope_scaling", "rope_theta"))
    allowed = settings.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "") in ("1", "true", "True")
    if number is None or overridden or allowed:
        return
    try:
        positions = read_architecture(config).positions
    except CannotTell:
        return
    if positions is not None and number > positions:
        what = f"{text.strip()} is more than the model's maximum length, {positions}"
        yield Mistake(option="max_model_len", what=what, hint=f"write {positions} or less")


def _quantization(
    config: Mapping[str, Any], settings: EngineSettings, files: Collection[str]
) -> Iterator[Mistake]:
    option, method = settings.text("quantize", "quantization")
    method, stored = method.lower(), stored_method(config)
    if not method or method in _ANY_CHECKPOINT:
        return
    has_config = any(key in config for key in ("quantization_config", "compression_config"))
    if not has_config and method in _FROM_CHECKPOINT and not any(name in files for name in _CONFIG_FILES):
        what = f"{method} needs quantized weights, but those of this model are not quantized"
        hint = f"omit it, use a model that is quantized with {method}, or write fp8 or bitsandbytes"
        yield Mistake(option=option, what=what, hint=hint)
    elif stored and _family(method) and _family(stored) and _family(method) != _family(stored):
        what = f"{method} cannot be used: the model is quantized with {stored}"
        yield Mistake(option=option, what=what, hint="omit it: vLLM reads the method from config.json")


def _family(method: str) -> str:
    return next((name for name in _FAMILIES if name in method), "")
