"""Check whether a model fits: passes the request of a recipe or a command line to `sizing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lmi_deploy.catalog import images, vllm_arguments
from lmi_deploy.catalog.server_version import FAMILIES, server_tag
from lmi_deploy.domain.gathered_facts import Facts, Machine
from lmi_deploy.domain.price_table import PriceTable, RegionPrices
from lmi_deploy.domain.recipe_keys import AUTO_INSTANCE, Engine, Recipe
from lmi_deploy.errors import LmiError, Unresolvable
from lmi_deploy.planning.compute_capability import EngineSettings, Mistake
from lmi_deploy.planning.model_compatibility import model_mistakes
from lmi_deploy.sizing.architecture import read_architecture
from lmi_deploy.sizing.devices import Devices, instance_devices, machine_devices, named_devices
from lmi_deploy.sizing.fit_assessment import USUAL_CONTEXT, Checkpoint, Fit, assess
from lmi_deploy.sizing.fit_notes import notes
from lmi_deploy.sizing.fitting_instances import FittingInstance, cheapest_fitting, fitting_instances
from lmi_deploy.sizing.longest_context import USUAL_REGION
from lmi_deploy.sizing.remedies import Remedy, remedies
from lmi_deploy.sizing.sizing_request import ENGINES, NEWEST_VLLM, SizingRequest, engine_version, normalized
from lmi_deploy.sizing.tensors import CannotTell
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.gather_facts import model_location
from lmi_deploy.workflows.price_refresh import price_table
from lmi_deploy.workflows.safetensors_headers import gathered_checkpoint, read_checkpoint

_VARIABLES: Final = ("VLLM_CPU_KVCACHE_SPACE", "VLLM_MLA_DISABLE", "VLLM_USE_V2_MODEL_RUNNER")
"""Variables of vLLM that change how it uses memory."""
_ORDER: Final = ("does-not-fit", "unknown", "tight", "fits")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """The model and where it is to fit; None and empty leave a choice to the recipe, then to the engine."""

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
    """This machine, if the request is about it."""
    region: str = USUAL_REGION
    """Of prices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    fit: Fit
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = ()


def request_of(recipe: Recipe, machine: Machine | None) -> FitRequest:
    """Whether the recipe's model fits; on `machine`, if the recipe is for this machine."""
    environment = dict(recipe.container.environment)
    options = {
        key.removeprefix("OPTION_").lower(): value
        for key, value in environment.items()
        if key.startswith(("OPTION_", *_VARIABLES))
    }
    return FitRequest(
        model_id=model_location(recipe),
        revision=recipe.revision,
        engine=recipe.engine,
        version=server_tag(recipe.container.version, recipe.container.image),
        instances=recipe.instance_type,
        degree=recipe.tensor_parallel_degree,
        options={**options, **dict(recipe.options)},
        machine=machine,
        region=recipe.endpoint.region or USUAL_REGION,
    )


def recipe_request(recipe: Recipe, deps: Dependencies) -> FitRequest:
    """The same; this machine is looked at only if the recipe is for it."""
    return request_of(recipe, deps.machine() if recipe.endpoint.target == "local" else None)


def check_fit(fit_request: FitRequest, deps: Dependencies) -> FitResult:
    """Reads the model's config.json and headers, nothing more."""
    return judge(fit_request, _checkpoint_of(fit_request, deps), price_table(deps))


def _checkpoint_of(fit_request: FitRequest, deps: Dependencies) -> Checkpoint:
    return read_checkpoint(fit_request.model_id, fit_request.revision, deps.hub(fit_request.model_id))


def judge(
    fit_request: FitRequest, checkpoint: Checkpoint, prices: PriceTable, *, help_tight: bool = True
) -> FitResult:
    """Of several instance types the one with the worst fit: any of them may be used. Without `help_tight` no remedies
    are searched for if it fits.
    """
    try:
        request = sizing_request(fit_request)
        if tuple(fit_request.instances) == AUTO_INSTANCE:
            fit_request = replace(
                fit_request, instances=(_cheapest(checkpoint, request, prices.of(fit_request.region)),)
            )
        choices = _devices(fit_request)
    except CannotTell as reason:
        return FitResult(fit=Fit(verdict="unknown", reason=str(reason), engine=fit_request.engine))
    if refused := _refused_class(fit_request, checkpoint, request):
        why = f"{refused.what}; {refused.hint}"
        return FitResult(
            fit=Fit(verdict="does-not-fit", reason=why, engine=fit_request.engine, devices=choices[0])
        )
    assessed = [(assess(checkpoint, request, devices), devices) for devices in choices]
    worst, devices = min(assessed, key=lambda each: _ORDER.index(each[0].verdict))
    worst = replace(worst, engine=fit_request.engine)
    needs_help = help_tight or worst.verdict == "does-not-fit"
    return FitResult(
        fit=worst,
        remedies=remedies(
            checkpoint, request, devices, worst, prices.complete_or(fit_request.region, USUAL_REGION)
        )
        if needs_help
        else (),
        notes=notes(checkpoint, worst, devices),
    )


def _refused_class(fit_request: FitRequest, checkpoint: Checkpoint, request: SizingRequest) -> Mistake | None:
    """That the vLLM of the request has no model for the checkpoint's class; None if it has, or if that is unknown."""
    if request.engine != "vllm" or request.vllm > NEWEST_VLLM:
        return None
    settings = EngineSettings(
        options=fit_request.options, environment={}, image=vllm_arguments.image_of(request.vllm)
    )
    return next((one for one in model_mistakes(checkpoint.table, settings) if one.option == "engine"), None)


def _cheapest(checkpoint: Checkpoint, request: SizingRequest, prices: RegionPrices) -> str:
    """The instance type of `auto`. CannotTell if no type with a known price holds the model."""
    found = cheapest_fitting(checkpoint, request, prices)
    if found is None or found.usd_per_hour is None:
        raise CannotTell(f"no instance type with a known price in {prices.region} holds it; name one")
    return found.instance


def matching_instances(
    fit_request: FitRequest, deps: Dependencies, region: str
) -> tuple[FittingInstance, ...]:
    """The instance types that can run the model at the requested length, else at the usual one. LmiError with the
    reason, Unresolvable if the engine does not support the model's class.
    """
    checkpoint = _checkpoint_of(fit_request, deps)
    try:
        request = instance_request(fit_request, checkpoint)
        if refused := _refused_class(fit_request, checkpoint, request):
            raise Unresolvable(f"{fit_request.model_id}: {refused.what}", hint=refused.hint)
        return fitting_instances(checkpoint, request, price_table(deps).of(region))
    except CannotTell as reason:
        raise LmiError(f"{fit_request.model_id}: {reason}", hint="`lmi fit` shows the calculation") from None


def instance_request(fit_request: FitRequest, checkpoint: Checkpoint) -> SizingRequest:
    """The request with a sequence length and without a degree, because each type has its own. CannotTell if the
    checkpoint cannot be read.
    """
    request = sizing_request(fit_request)
    if checkpoint.trouble:
        raise CannotTell(checkpoint.trouble)
    if request.context is None and request.whole("max_model_len") is None:
        longest = read_architecture(checkpoint.table).positions or USUAL_CONTEXT
        request = replace(request, context=min(longest, USUAL_CONTEXT))
    return replace(request, degree=None)


def require_fit(recipe: Recipe, facts: Facts, prices: PriceTable, *, force: bool) -> str:
    """In a few words for the plan. Unresolvable, with the sum, if the model does not fit, unless forced."""
    fit_request = request_of(recipe, facts.machine)
    outcome = judge(fit_request, gathered_checkpoint(facts), prices, help_tight=False)
    fit = outcome.fit
    if fit.verdict == "does-not-fit" and not force:
        hint = "`lmi fit RECIPE` shows the calculation; add --force-fit to continue anyway"
        if outcome.remedies:
            hint = "change one of these, or add --force-fit; `lmi fit` shows the calculation"
        raise does_not_fit(recipe.model_id, fit.where, outcome, hint=hint)
    match fit.verdict:
        case "unknown":
            return f"cannot tell: {fit.reason}"
        case "does-not-fit":
            return f"does not fit: {fit.reason}"
        case _:
            return fit.verdict


def does_not_fit(model_id: str, where: str, outcome: FitResult, *, hint: str) -> Unresolvable:
    """With the sum, and what would help."""
    return Unresolvable(
        f"{model_id} does not fit on {where}: {outcome.fit.reason}",
        hint=hint,
        details=[remedy.what for remedy in outcome.remedies],
    )


def sizing_request(fit_request: FitRequest) -> SizingRequest:
    """CannotTell for an engine that lmi cannot judge."""
    engine = ENGINES.get(fit_request.engine)
    if engine is None:
        raise CannotTell(f"lmi cannot judge engine {fit_request.engine}; it knows {', '.join(ENGINES)}")
    version, lmi = engine_version(_version(fit_request) if engine == "vllm" else None)
    is_here = fit_request.machine is not None and not fit_request.gpu and not fit_request.instances
    return SizingRequest(
        engine=engine,
        vllm=version,
        lmi=lmi,
        degree=fit_request.degree or (1 if is_here else None),  # as `degree_of` has it for this machine
        context=fit_request.context,
        sequences=fit_request.sequences,
        options=normalized(fit_request.options),
    )


def _version(fit_request: FitRequest) -> str | None:
    """The server's; that of vLLM's own server is vLLM's."""
    if fit_request.engine != "vllm-server":
        return fit_request.version
    return f"vllm-{(fit_request.version or images.latest(FAMILIES['vllm-server'])).removeprefix('vllm-')}"


def _devices(fit_request: FitRequest) -> list[Devices | None]:
    if fit_request.gpu is not None:
        return [named_devices(fit_request.gpu, fit_request.gpus)]
    if fit_request.instances:
        return [instance_devices(name) for name in fit_request.instances]
    return [None if fit_request.machine is None else machine_devices(fit_request.machine)]
