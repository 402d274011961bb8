"""The fit: the sum for one device, the verdict, and changes that would make it fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from lmi_deploy.domain.number_text import gib_text
from lmi_deploy.sizing import accelerate, encoder, neuron, sglang, tensor_split, tensorrt_llm, vllm, vllm_cpu
from lmi_deploy.sizing.architecture import Architecture, read_architecture
from lmi_deploy.sizing.device_support import unsupported
from lmi_deploy.sizing.devices import Devices
from lmi_deploy.sizing.kv_cache_size import longest_sequence, tokens_in
from lmi_deploy.sizing.memory_demand import Demand, SizingCase
from lmi_deploy.sizing.quantization import Quantization, stored_quantization
from lmi_deploy.sizing.sizing_request import INFERENTIA_1, ON_NEURON, SizingRequest
from lmi_deploy.sizing.synthesized_tensors import tensors_of
from lmi_deploy.sizing.tensor_parallel_degree import NotDivisible, require_divisible, whole_degree
from lmi_deploy.sizing.tensors import CannotTell, Tensor, total_size

Verdict = Literal["fits", "tight", "does-not-fit", "unknown"]
TIGHT_SHARE: Final = 0.03
"""Of the device: less than this to spare is called tight. The lines of an engine's own log differ by as much between
drivers, versions and allocators."""

USUAL_CONTEXT: Final = 4096
"""For engines that do not reserve memory for the longest sequence at start-up: they serve shorter ones. LMI compiles
for as many positions on Neuron (djl-serving, LmiUtils.java).
"""
OLD_TIGHT_SHARE: Final = 0.15
"""The same for vLLM before 0.6, which measures what torch's allocator keeps and not what is in use (0.5.3.post1,
worker/worker.py): docs/reference/sizing.md shows its lines off by up to 13% of a device."""
_MEASURES_USE: Final = (0, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What is known of a model: config.json, and the tensors of its safetensors headers or the sizes of its pickles."""

    table: Mapping[str, Any]
    tensors: Sequence[Tensor] = ()
    pickles: Sequence[int] = ()
    gguf: bool = False
    trouble: str = ""
    """The error in its files; empty: none."""
    files: Sequence[str] = ()
    """Their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """`parts` are bytes of the fullest device; `budget` the part of it that the engine may use."""

    verdict: Verdict
    reason: str
    engine: str = ""
    devices: Devices | None = None
    degree: int = 0
    context: int = 0
    sequences: int = 0
    budget: int = 0
    parts: Mapping[str, int] = field(default_factory=dict)
    outside: int = 0
    """Bytes of the device that are not in the budget."""
    reserve: int = 0
    """About what the CUDA context, NCCL and graphs take of them."""
    cache: int = 0
    """Bytes of one device for the KV cache."""
    needed: int = 0
    """Bytes of one device that the requested sequences take in it."""
    token_bytes: float = 0
    """Bytes of one device that one more token of a long sequence takes."""
    kv_tokens: int = 0
    max_context: int = 0
    max_sequences: int = 0
    from_config: bool = False
    """The weights were derived from config.json, because there are no headers."""

    @property
    def where(self) -> str:
        """The instance type, else the device; empty if no device was named."""
        return (self.devices.instance or self.devices.name) if self.devices else ""


def assess(
    checkpoint: Checkpoint, request: SizingRequest, devices: Devices | None, *, limits: bool = True
) -> Fit:
    """Never raises for user input: what cannot be judged is `unknown`, with the reason. Without `limits` the longest
    context is not searched for.
    """
    try:
        if devices is None:
            raise CannotTell(
                "no instance type and no GPU given; `lmi instances --fits MODEL` lists the types that hold it, and "
                "--instance TYPE, or --gpu NAME --gpus N, checks one"
            )
        if reason := unsupported(checkpoint.table, request, devices):
            return Fit(verdict="does-not-fit", reason=reason, devices=devices)
        return _fit_of(_subject(checkpoint, request, devices), checkpoint, limits=limits)
    except NotDivisible as refused:
        return Fit(verdict="does-not-fit", reason=str(refused), devices=devices)
    except CannotTell as missing:
        return _too_large(checkpoint, devices) or Fit(verdict="unknown", reason=str(missing), devices=devices)


def _subject(checkpoint: Checkpoint, request: SizingRequest, devices: Devices) -> SizingCase:
    if checkpoint.trouble:
        raise CannotTell(checkpoint.trouble)
    if checkpoint.gguf:
        raise CannotTell("the model is a GGUF file, which the engines of LMI cannot load")
    shape = read_architecture(checkpoint.table)
    quantization = stored_quantization(checkpoint.table)
    _require_kind(request, devices)
    tensors = checkpoint.tensors or _without_headers(checkpoint, shape, quantization)
    pipeline = request.whole("pipeline_parallel_degree") or 1
    degree = whole_degree(request, devices, pipeline, shape)
    require_divisible(shape, request.engine, degree)
    return SizingCase(
        shape=shape,
        tensors=tensors,
        quantization=quantization,
        request=request,
        devices=devices,
        degree=degree,
        context=_context(request, shape),
        pipeline=pipeline,
        pickles=checkpoint.pickles,
    )


def _require_kind(request: SizingRequest, devices: Devices) -> None:
    if request.engine in ON_NEURON and devices.kind != "neuron":
        raise CannotTell(
            f"engine {request.engine} needs NeuronCores; {devices.instance or devices.name} has none"
        )
    if devices.kind == "neuron":
        suited = "neuron" if devices.name == INFERENTIA_1 else "neuronx"
        if request.engine != suited:
            raise CannotTell(f"engine {request.engine} does not run on {devices.name}; engine {suited} does")


def _without_headers(
    checkpoint: Checkpoint, shape: Architecture, quantization: Quantization | None
) -> Sequence[Tensor]:
    """From config.json; for pickles their file size is used, and one tensor represents all of them."""
    if checkpoint.pickles:
        item = 4 if (shape.dtype or "").endswith("float32") else 2
        return (
            Tensor("pickles.weight", "F32" if item == 4 else "BF16", (sum(checkpoint.pickles) // item, 1)),
        )
    return tensors_of(shape, quantization)


def _context(request: SizingRequest, shape: Architecture) -> int:
    """As requested, else as the engine takes it from the model."""
    requested = request.context or request.whole("max_model_len") or request.whole("n_positions")
    if requested is not None:
        return requested
    if request.engine != "vllm":
        return min(shape.positions or USUAL_CONTEXT, USUAL_CONTEXT)
    if shape.positions is None:
        raise CannotTell("config.json has no maximum sequence length; add --context L")
    return shape.positions


def demand_of(subject: SizingCase) -> Demand:
    """The memory that the request's engine needs."""
    match subject.request.engine:
        case "vllm" if subject.devices.kind == "cpu":
            return vllm_cpu.demand(subject)
        case "vllm":
            return vllm.demand(subject)
        case "tensorrt-llm":
            return tensorrt_llm.demand(subject)
        case "neuronx":
            return neuron.demand(subject)
        case "deepspeed" | "fastertransformer":
            return tensor_split.demand(subject)
        case "accelerate":
            return accelerate.demand(subject)
        case "sglang":
            return sglang.demand(subject)
        case "tei":
            return encoder.tei_demand(subject)
        case "neuron":
            return encoder.neuron_demand(subject)


def _fit_of(subject: SizingCase, checkpoint: Checkpoint, *, limits: bool) -> Fit:
    demand = demand_of(subject)
    memory, layout = demand.cache_memory, demand.layout
    sequences = subject.request.sequences or 1
    sequence_bytes = layout.sequence_bytes(subject.context)
    needed = sequences * sequence_bytes
    verdict, reason = _verdict(subject, demand, needed)
    return Fit(
        verdict=verdict,
        reason=reason,
        engine=subject.request.engine,
        devices=subject.devices,
        degree=subject.degree,
        context=subject.context,
        sequences=sequences,
        budget=demand.budget,
        parts=demand.parts,
        outside=demand.outside,
        reserve=demand.reserve,
        cache=memory,
        needed=needed,
        token_bytes=layout.token_bytes,
        kv_tokens=tokens_in(layout, memory, length=subject.context),
        max_context=_longest_context(subject, demand) if limits else 0,
        max_sequences=max(0, memory) // sequence_bytes if sequence_bytes else 0,
        from_config=not checkpoint.tensors and not checkpoint.pickles,
    )


def _longest_context(subject: SizingCase, demand: Demand) -> int:
    """The longest sequence that fits the requested number of times, at most the model's limit."""
    sequences, limit = subject.request.sequences or 1, max(subject.shape.positions or 0, subject.context)
    quick = longest_sequence(demand.layout, demand.cache_memory, sequences=sequences, limit=limit)
    # vLLM before V1 takes prompts in pieces beyond 32 Ki only: what fits there need not fit below.
    if not demand.grows_with_context or (quick and _fits_cache(subject, sequences, quick)):
        return quick
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _fits_cache(subject, sequences, middle) else (low, middle - 1)
    return low


def _fits_cache(subject: SizingCase, sequences: int, context: int) -> bool:
    demand = demand_of(replace(subject, context=context))
    return sequences * demand.layout.sequence_bytes(context) <= demand.cache_memory


def _verdict(subject: SizingCase, demand: Demand, needed: int) -> tuple[Verdict, str]:
    old = subject.request.engine == "vllm" and subject.request.vllm < _MEASURES_USE
    share = OLD_TIGHT_SHARE if old else TIGHT_SHARE
    memory, margin = demand.cache_memory, int(subject.devices.memory * share)
    if demand.load_peak > subject.devices.memory:
        size = f"{gib_text(demand.load_peak)} of {gib_text(subject.devices.memory)}"
        return "does-not-fit", f"the weights take {size} while they are loaded, before they are quantized"
    if memory <= 0:
        taken, budget = gib_text(sum(demand.parts.values())), gib_text(demand.budget)
        what = f"weights and buffers take {taken} of one device, but the engine may use only {budget}"
        return "does-not-fit", what
    if needed > memory:
        what = f"the sequences take {gib_text(needed)} of KV cache on one device, {gib_text(memory)} are left"
        return "does-not-fit", what
    if subject.devices.kind == "gpu" and 0 < demand.outside < demand.reserve + margin:
        taken, left = gib_text(demand.reserve, 2), gib_text(demand.outside, 2)
        setting = "mem_fraction_static" if subject.request.engine == "sglang" else "gpu_memory_utilization"
        what = f"{setting} leaves {left} for the CUDA context, NCCL and graphs, which take about {taken}"
        return "tight", what
    if needed + margin > memory:
        return "tight", f"less than {share:.0%} of the device is left"
    return "fits", "weights, buffers and the requested sequences fit"


def _too_large(checkpoint: Checkpoint, devices: Devices | None) -> Fit | None:
    """Weights larger than all devices together do not fit, whatever else is unknown."""
    size = total_size_or_none(checkpoint)
    if devices is None or not size or checkpoint.trouble or checkpoint.gguf:
        return None
    if size <= devices.memory * devices.count:
        return None
    return Fit(
        verdict="does-not-fit",
        reason="the weights are more than the memory of all devices together",
        devices=devices,
        degree=devices.count,
        budget=devices.memory,
        parts={"weights": size // devices.count},
    )


def total_size_or_none(checkpoint: Checkpoint) -> int | None:
    try:
        return total_size(checkpoint.tensors) or sum(checkpoint.pickles)
    except CannotTell:
        return None
