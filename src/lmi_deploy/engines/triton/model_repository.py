"""Triton's model repository for an encoder-decoder: one model with transformers, or an ensemble of compiled parts.

SageMaker's container starts with `--model-control-mode=explicit` and loads one model; Triton loads the steps of an
ensemble with it (seen with server 2.51). So the decoder, which the generator calls, is a step as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lmi_deploy.catalog.triton_options import numbers
from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.recipe_keys import Pairs

MODEL: Final = "model"
"""The model that requests go to."""
COMPILED: Final[Mapping[str, str]] = {"onnxruntime": ".onnx", "tensorrt": ".plan"}
"""The file names' ends of the backends that run compiled models."""
PARTS: Final = ("encoder", "decoder")
_TO_ROOT: Final = "../" * 24
"""Triton appends a model's file name to the model's folder: this way leads to an absolute path from any folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonTensor:
    """`type` as in a config.pbtxt; `dims` without the batch, -1 for any length."""

    name: str
    type: str
    dims: tuple[int, ...] = (1,)
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    preferred: tuple[int, ...]
    delay: int
    """Microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroup:
    count: int
    kind: str
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model of an ensemble: its tensors, each with the ensemble's name for it."""

    model: str
    inputs: Pairs
    outputs: Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonModel:
    """The content of one config.pbtxt. `code`: the file in `templates/triton/text2text/`; `file`: the path of a
    compiled model.
    """

    name: str
    max_batch_size: int
    inputs: tuple[TritonTensor, ...]
    outputs: tuple[TritonTensor, ...]
    backend: str = ""
    code: str = ""
    file: str = ""
    parameters: Pairs = ()
    batching: Batching | None = None
    instances: InstanceGroup | None = None
    steps: tuple[Step, ...] = ()


_TEXT: Final = TritonTensor(name="text", type="TYPE_STRING")
_ANSWER: Final = TritonTensor(name="generated_text", type="TYPE_STRING")


def models_of(settings: Mapping[str, str]) -> tuple[TritonModel, ...]:
    """The models, for checked options with their defaults."""
    if settings["backend"] in COMPILED:
        return _compiled(settings)
    optional = TritonTensor(name="parameters", type="TYPE_STRING", optional=True)
    own = ("dtype", "max_input_length", "max_new_tokens", "trust_remote_code", "trust_insecure_model_files")
    return (
        TritonModel(
            name=MODEL,
            backend="python",
            code="model.py",
            max_batch_size=int(settings["max_batch_size"]),
            inputs=(_TEXT, optional),
            outputs=(_ANSWER,),
            batching=_batching(settings),
            instances=_instances(settings),
            parameters=(*_python(settings), *((name, settings[name]) for name in own)),
        ),
    )


def _compiled(settings: Mapping[str, str]) -> tuple[TritonModel, ...]:
    most, token = int(settings["max_batch_size"]), f"TYPE_{settings['token_type'].upper()}"
    ids, mask, first = (
        TritonTensor(name=name, type=token, dims=(-1,))
        for name in ("input_ids", "attention_mask", "first_ids")
    )
    hidden = TritonTensor(name="hidden_states", type="TYPE_FP32", dims=(-1, -1))
    logits = TritonTensor(name="first_logits", type="TYPE_FP32", dims=(-1, -1))
    on_cpu = InstanceGroup(count=1, kind="KIND_CPU", gpus=())
    own = ("token_type", "max_input_length", "max_new_tokens")
    parameters = (*_python(settings), *((name, settings[name]) for name in own))
    return (
        TritonModel(name=MODEL, max_batch_size=most, inputs=(_TEXT,), outputs=(_ANSWER,), steps=_steps()),
        TritonModel(
            name="tokenizer",
            backend="python",
            code="tokenizer.py",
            max_batch_size=most,
            instances=on_cpu,
            inputs=(_TEXT,),
            outputs=(ids, mask, first),
            parameters=parameters,
        ),
        _part("encoder", settings, inputs=(ids, mask), outputs=(_renamed(hidden, "last_hidden_state"),)),
        _part(
            "decoder",
            settings,
            inputs=(ids, _renamed(mask, "encoder_attention_mask"), _renamed(hidden, "encoder_hidden_states")),
            outputs=(_renamed(logits, "logits"),),
        ),
        TritonModel(
            name="generator",
            backend="python",
            code="generator.py",
            max_batch_size=most,
            instances=on_cpu,
            inputs=(logits, mask, hidden),
            outputs=(_ANSWER,),
            parameters=parameters,
        ),
    )


def _part(
    name: str,
    settings: Mapping[str, str],
    *,
    inputs: tuple[TritonTensor, ...],
    outputs: tuple[TritonTensor, ...],
) -> TritonModel:
    """A compiled model. The tensors have the names that optimum's export to ONNX gives them."""
    return TritonModel(
        name=name,
        backend=settings["backend"],
        file=f"{_TO_ROOT}{SLOT}/{name}{COMPILED[settings['backend']]}",
        max_batch_size=int(settings["max_batch_size"]),
        inputs=inputs,
        outputs=outputs,
        batching=_batching(settings),
        instances=_instances(settings),
        parameters=(("weights", SLOT),),
    )


def _steps() -> tuple[Step, ...]:
    given = ("attention_mask", "attention_mask")
    hidden = ("hidden_states", "hidden_states")
    return (
        Step(
            model="tokenizer",
            inputs=(("text", "text"),),
            outputs=(("input_ids", "input_ids"), given, ("first_ids", "first_ids")),
        ),
        Step(
            model="encoder",
            inputs=(("input_ids", "input_ids"), given),
            outputs=(("last_hidden_state", "hidden_states"),),
        ),
        Step(
            model="decoder",
            inputs=(
                ("input_ids", "first_ids"),
                ("encoder_attention_mask", "attention_mask"),
                ("encoder_hidden_states", "hidden_states"),
            ),
            outputs=(("logits", "first_logits"),),
        ),
        Step(
            model="generator",
            inputs=(("first_logits", "first_logits"), given, hidden),
            outputs=(("generated_text", "generated_text"),),
        ),
    )


def _python(settings: Mapping[str, str]) -> Pairs:
    """Parameters of every model with Python code."""
    packed = settings["execution_environment"]
    environment = (("EXECUTION_ENV_PATH", f"{SLOT}/{packed}"),) if packed else ()
    return (*environment, ("weights", SLOT))


def _batching(settings: Mapping[str, str]) -> Batching | None:
    if settings["dynamic_batching"] == "false":
        return None
    preferred = numbers(settings["preferred_batch_size"])
    return Batching(preferred=preferred, delay=int(settings["max_queue_delay_microseconds"]))


def _instances(settings: Mapping[str, str]) -> InstanceGroup:
    gpus = numbers(settings["gpus"])
    return InstanceGroup(count=int(settings["instance_count"]), kind=settings["instance_kind"], gpus=gpus)


def _renamed(tensor: TritonTensor, name: str) -> TritonTensor:
    return TritonTensor(name=name, type=tensor.type, dims=tensor.dims)
