"""Check whether a model fits: passes the question of a recipe or a command line to `sizing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from lmi_deploy.domain.facts import Facts, Machine
from lmi_deploy.domain.recipe import Engine, Recipe
from lmi_deploy.errors import LmiError, Unresolvable
from lmi_deploy.sizing.architecture import read_architecture
from lmi_deploy.sizing.assessment import USUAL_CONTEXT, Checkpoint, Fit, assess
from lmi_deploy.sizing.devices import Devices, instance_devices, named_devices
from lmi_deploy.sizing.notes import notes
from lmi_deploy.sizing.placements import Placement, placements
from lmi_deploy.sizing.remedies import Remedy, remedies
from lmi_deploy.sizing.request import ENGINES, Request, engine_version, normalized
from lmi_deploy.sizing.tensors import CannotTell
from lmi_deploy.workflows.checkpoint import gathered_checkpoint, read_checkpoint
from lmi_deploy.workflows.dependencies import Dependencies

_ORDER: Final = ("does-not-fit", "unknown", "tight", "fits")
_SEEN_BY_TORCH: Final = 0.97
"""Share of the memory that nvidia-smi prints: a T4 has 15360 MiB there and 14.56 GiB in torch, an A10G 23028 MiB and
21.98 GiB.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """The question; None and empty leave a choice to the recipe, then to the engine."""

    model_id: str
    revision: str = "main"
    engine: Engine = "vllm"
    version: str | None = None
    instances: Sequence[str] = ()
    gpu: str | None = None
    gpus: int = 1
    degree: int | None = None
    context: int | None = None
    sequences: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    machine: Machine | None = None
    """This machine, if the question is about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    fit: Fit
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = ()


def question_of(recipe: Recipe, deps: Dependencies) -> FitRequest:
    """The question of a recipe; if it is for this machine, with this machine's devices."""
    model_id = recipe.model_id
    if model_id.startswith(("./", "../")):
        model_id = str((Path(recipe.origin).parent / model_id).resolve())
    environment = dict(recipe.container.environment)
    options = {
        key.removeprefix("OPTION_").lower(): value
        for key, value in environment.items()
        if key.startswith(("OPTION_", "VLLM_CPU_KVCACHE_SPACE"))
    }
    image = recipe.container.image
    tag = image.rpartition(":")[2] if image and "/djl-inference:" in image else None
    return FitRequest(
        model_id=model_id,
        revision=recipe.revision,
        engine=recipe.engine,
        version=recipe.container.version or tag,
        instances=recipe.instance_type,
        degree=recipe.tensor_parallel_degree,
        options={**options, **dict(recipe.options)},
        machine=deps.machine() if recipe.endpoint.target == "local" else None,
    )


def fit(prompt: FitRequest, deps: Dependencies) -> Outcome:
    """Reads the model's config.json and headers, nothing more."""
    return judge(prompt, read_checkpoint(prompt.model_id, prompt.revision, deps.hub(prompt.model_id)))


def judge(prompt: FitRequest, checkpoint: Checkpoint, *, help_tight: bool = True) -> Outcome:
    """Of several instance types the one with the worst fit: any of them may be used. Without `help_tight` no remedies
    are searched for if it fits.
    """
    try:
        request = _request(prompt)
        places = _devices(prompt)
    except CannotTell as reason:
        return Outcome(fit=Fit(verdict="unknown", reason=str(reason), engine=prompt.engine))
    found = [(assess(checkpoint, request, place), place) for place in places]
    worst, place = min(found, key=lambda one: _ORDER.index(one[0].verdict))
    worst = replace(worst, engine=prompt.engine)
    sought = help_tight or worst.verdict == "does-not-fit"
    named = remedies(checkpoint, request, place, worst) if sought else ()
    return Outcome(fit=worst, remedies=named, notes=notes(checkpoint, worst, place))


def holders(prompt: FitRequest, deps: Dependencies, region: str) -> tuple[Placement, ...]:
    """The instance types that can run the model at the requested length, else at the usual one. LmiError with the
    reason.
    """
    checkpoint = read_checkpoint(prompt.model_id, prompt.revision, deps.hub(prompt.model_id))
    try:
        request = _request(prompt)
        if request.context is None and request.whole("max_model_len") is None:
            request = replace(request, context=_usual_context(checkpoint))
        return placements(checkpoint, replace(request, degree=None), region)
    except CannotTell as reason:
        raise LmiError(f"{prompt.model_id}: {reason}", hint="`lmi fit` says more") from None


def _usual_context(checkpoint: Checkpoint) -> int:
    return min(read_architecture(checkpoint.table).positions or USUAL_CONTEXT, USUAL_CONTEXT)


def require_fit(recipe: Recipe, facts: Facts, deps: Dependencies, *, force: bool) -> str:
    """In a few words for the plan. Unresolvable, with the sum, if the model does not fit, unless forced."""
    prompt = question_of(recipe, deps)
    if prompt.machine is not None and prompt.degree is None:
        prompt = replace(prompt, degree=1)  # as `decide.degree` has it for this machine
    outcome = judge(prompt, gathered_checkpoint(facts), help_tight=False)
    found = outcome.fit
    if found.verdict == "does-not-fit" and not force:
        where = found.devices.instance or found.devices.name if found.devices else ""
        raise Unresolvable(
            f"{recipe.model_id} does not fit on {where}: {found.reason}",
            hint="change one of these, or add --force-fit; `lmi fit` shows the sum"
            if outcome.remedies
            else "see `lmi fit RECIPE` for the sum; --force-fit goes on all the same",
            details=[remedy.what for remedy in outcome.remedies],
        )
    match found.verdict:
        case "unknown":
            return f"cannot tell: {found.reason}"
        case "does-not-fit":
            return f"does not fit: {found.reason}"
        case _:
            return found.verdict


def _request(prompt: FitRequest) -> Request:
    engine = ENGINES.get(prompt.engine)
    if engine is None:
        raise CannotTell(f"lmi cannot judge engine {prompt.engine}; it knows {', '.join(ENGINES)}")
    version, lmi = engine_version(prompt.version)
    return Request(
        engine=engine,
        vllm=version,
        lmi=lmi,
        degree=prompt.degree,
        context=prompt.context,
        sequences=prompt.sequences,
        options=normalized(prompt.options),
    )


def _devices(prompt: FitRequest) -> list[Devices | None]:
    if prompt.gpu is not None:
        return [named_devices(prompt.gpu, prompt.gpus)]
    if prompt.instances:
        return [instance_devices(name) for name in prompt.instances]
    return [None if prompt.machine is None else machine_devices(prompt.machine)]


def machine_devices(machine: Machine) -> Devices:
    """GPUs if it has any, all as large as the smallest; else its memory."""
    if not machine.accelerators:
        return Devices(kind="cpu", name="CPU", count=1, memory=machine.memory, host_memory=machine.memory)
    name, least = min(machine.accelerators, key=lambda one: one[1])
    return Devices(
        kind="gpu",
        name=name,
        count=len(machine.accelerators),
        memory=int(least * _SEEN_BY_TORCH),
        nominal=least,
        host_memory=machine.memory,
        estimated=True,
    )
