"""Check a recipe against its model: what the engine would refuse at its start, once config.json is known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lmi_deploy.catalog import accelerators
from lmi_deploy.catalog.instances import chosen
from lmi_deploy.domain.gathered_facts import Facts, Machine
from lmi_deploy.domain.price_table import RegionPrices
from lmi_deploy.domain.recipe_keys import AUTO_INSTANCE, Recipe
from lmi_deploy.errors import LmiError, Unresolvable
from lmi_deploy.planning.compute_capability import (
    EngineSettings,
    Mistake,
    device_mistakes,
    device_notes,
    engine_settings,
)
from lmi_deploy.planning.model_compatibility import (
    checkpoint_needs,
    draft_mistake,
    draft_model,
    model_mistakes,
    model_notes,
)
from lmi_deploy.planning.task_detection import unusual_files
from lmi_deploy.sizing.fit_assessment import Checkpoint, Verdict
from lmi_deploy.sizing.fitting_instances import FittingInstance, by_price
from lmi_deploy.sizing.longest_context import USUAL_REGION
from lmi_deploy.workflows.checkpoint_headers import gathered_checkpoint, read_checkpoint
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.fit import candidates, judge, recipe_request
from lmi_deploy.workflows.gather_facts import read_json
from lmi_deploy.workflows.price_refresh import price_table

_ABOVE = ("engine", "instance_type", "model_id")
"""Keys of the recipe itself, not of its options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is known of a recipe and its model. `fit` is the verdict of `lmi fit`."""

    fit: Verdict
    mistakes: tuple[Mistake, ...] = ()
    notes: tuple[str, ...] = ()


def judge_model(recipe: Recipe, deps: Dependencies) -> Judgement:
    """Reads config.json and the headers of the weights, nothing more. NotFound and AccessError as `lmi fit`."""
    region = recipe.endpoint.region or USUAL_REGION
    request = recipe_request(recipe, deps)
    checkpoint = read_checkpoint(request.model_id, request.revision, deps.hub(request.model_id))
    prices = price_table(deps)
    recipe, why = with_instance(recipe, checkpoint, prices.of(region), deps)
    request = replace(request, instances=recipe.instance_type)
    outcome = judge(request, checkpoint, prices, help_tight=False)
    found = [
        *_unusual(recipe, checkpoint),
        *mistakes_of(recipe, checkpoint.table, deps, files=checkpoint.files),
    ]
    notes = [*filter(None, [why]), *notes_of(recipe, checkpoint.table, request.machine)]
    match outcome.fit.verdict:
        # A class or a device that is refused needs no second message.
        case "does-not-fit" if not any(one.option in _ABOVE for one in found):
            hint = f"try {outcome.remedies[0].what}" if outcome.remedies else "`lmi fit` shows the sum"
            what = f"{recipe.model_id} does not fit on {outcome.fit.where}: {outcome.fit.reason}"
            key = "instance_type" if recipe.instance_type else "model_id"
            found.append(Mistake(option=key, what=what, hint=hint))
        case "unknown":
            notes.append(f"lmi cannot compute whether the model fits: {outcome.fit.reason}")
        case "tight":
            notes.append(f"the model fits with little memory to spare: {outcome.fit.reason}")
        case "fits" | "does-not-fit":
            pass
    return Judgement(fit=outcome.fit.verdict, mistakes=tuple(found), notes=tuple(notes))


def _unusual(recipe: Recipe, checkpoint: Checkpoint) -> Iterator[Mistake]:
    """An adapter, or GGUF files: a plan refuses them, too."""
    found = unusual_files(checkpoint.files)
    if found is not None and recipe.handler.file is None:
        yield Mistake(option="model_id", what=f"{recipe.model_id} {found.unusual}", hint=found.advice)


def with_instance(
    recipe: Recipe, checkpoint: Checkpoint, prices: RegionPrices, deps: Dependencies, *, current: str = ""
) -> tuple[Recipe, str]:
    """`instance_type: auto` replaced by a type that can run the model, and why: by `current`, the type that the
    deployment has, else by the cheapest with a known price.

    Unresolvable if there is none; unchanged if the recipe names its types.
    """
    if recipe.instance_type != AUTO_INSTANCE:
        return recipe, ""
    able = candidates(recipe, checkpoint, prices)
    cheapest = _first_accepted(recipe, checkpoint, by_price(able), deps)
    kept = _first_accepted(recipe, checkpoint, [one for one in able if one.instance == current], deps)
    chosen_one = kept or cheapest
    if chosen_one is None:
        raise Unresolvable(
            f"instance_type: auto: no type with a known price in {prices.region} holds {recipe.model_id}",
            hint="name a type (`lmi instances --fits RECIPE` lists all, also unpriced ones), or reduce max_model_len. "
            f"`lmi catalog refresh --region {prices.region}` reads AWS's price list",
        )
    why = (
        "which the deployment has and which holds the model" if kept else "the cheapest that holds the model"
    )
    more = _cheaper(chosen_one, cheapest) if kept else ""
    if current and not kept:
        more = f"; {current}, which the deployment has, no longer holds it"
    words = f"instance_type auto: {_with_price(chosen_one, prices.region)}, {why} ({chosen_one.fit.verdict}){more}"
    return replace(recipe, instance_type=(chosen_one.instance,)), words


def _first_accepted(
    recipe: Recipe, checkpoint: Checkpoint, found: Iterable[FittingInstance], deps: Dependencies
) -> FittingInstance | None:
    """The first type on which neither the recipe nor the engine refuses the model."""
    for one in found:
        candidate = replace(recipe, instance_type=(one.instance,))
        if not any(deps.target_issues(candidate)) and not mistakes_of(candidate, checkpoint.table, None):
            return one
    return None


def _with_price(one: FittingInstance, region: str) -> str:
    usd = one.usd_per_hour
    price = "at an unknown price" if usd is None else f"{usd:.2f} USD per hour"
    return f"{one.instance}, {price} in {region}"


def _cheaper(kept: FittingInstance, cheapest: FittingInstance | None) -> str:
    """How to move to a cheaper type; empty if there is none."""
    if cheapest is None or (cheapest.usd_per_hour or 0) >= (kept.usd_per_hour or 0):
        return ""
    other = cheapest.instance
    return f"; {other} costs {cheapest.usd_per_hour:.2f}: `--set instance_type={other}` once moves it there"


def choose_instance_from_facts(
    recipe: Recipe, facts: Facts, deps: Dependencies
) -> tuple[Recipe, tuple[str, ...]]:
    """The same from the facts of a plan; why, and warnings about the prices."""
    if recipe.instance_type != AUTO_INSTANCE:
        return recipe, ()  # without a look at each tensor of the model
    region = facts.cloud.region if facts.cloud else USUAL_REGION
    current = facts.cloud.instance if facts.cloud else ""
    prices = price_table(deps)
    recipe, why = with_instance(recipe, gathered_checkpoint(facts), prices.of(region), deps, current=current)
    return recipe, (why, *prices.warnings(deps.clock.now().date(), region))


def mistakes_of(
    recipe: Recipe, config: Mapping[str, Any], deps: Dependencies | None, *, files: Collection[str] = ()
) -> tuple[Mistake, ...]:
    """Every reason why the engine refuses the model. `deps` reads a draft model; without it none is read."""
    if not _runs_vllm(recipe):
        return ()
    settings = engine_settings(recipe)
    found = [*model_mistakes(config, settings, files=files), *_devices(recipe, config, settings)]
    if deps is not None and recipe.endpoint.target == "local":
        found += [one for device in _own_gpu(deps.machine()) for one in device_mistakes(settings, *device)]
    if deps is not None and (draft := draft_model(settings)) and config:
        found += _draft(config, draft, deps)
    return tuple(found)


def notes_of(recipe: Recipe, config: Mapping[str, Any], own: Machine | None) -> tuple[str, ...]:
    """What is different or unknown, and stops nothing. `own` is this machine, for target local."""
    if not _runs_vllm(recipe):
        return ()
    settings = engine_settings(recipe)
    notes = [*model_notes(config, settings)]
    for device in _own_gpu(own):
        notes += device_notes(settings, *device)
    for machine in chosen(recipe):
        existing = machine.accelerators
        if existing and existing.compute_capability:
            notes += device_notes(settings, existing.name, existing.compute_capability)
        if (recipe.tensor_parallel_degree or 2) > 1 and accelerators.links(machine.name) == "PCIe":
            notes.append(
                f"the devices of {machine.name} are connected by PCIe, not NVLink: a divided model is slower"
            )
    return tuple(dict.fromkeys(notes))


def require_compatible(
    recipe: Recipe, config: Mapping[str, Any], deps: Dependencies, *, files: Collection[str]
) -> None:
    """Unresolvable with every mistake."""
    found = mistakes_of(recipe, config, deps, files=files)
    if found:
        first, *others = found
        raise Unresolvable(
            f"{path_of(first)}: {first.what}",
            hint=first.hint,
            details=[f"{path_of(other)}: {other.what}, {other.hint}" for other in others],
        )


def path_of(mistake: Mistake) -> str:
    """The key of the recipe."""
    return mistake.option if mistake.option in _ABOVE else f"options.{mistake.option}"


def _runs_vllm(recipe: Recipe) -> bool:
    """With its own rules: what a handler of the user's does is unknown."""
    return recipe.engine == "vllm" and not recipe.handler.file


def _own_gpu(machine: Machine | None) -> Iterator[tuple[str, float]]:
    """The GPU of this machine that can do least, with its compute capability; nothing if that is unknown."""
    if machine is not None and machine.accelerators and machine.compute_capability is not None:
        yield f"the {machine.accelerators[0][0]} of this machine", machine.compute_capability


def _devices(recipe: Recipe, config: Mapping[str, Any], settings: EngineSettings) -> Iterator[Mistake]:
    for machine in chosen(recipe):
        existing = machine.accelerators
        if existing and existing.compute_capability:
            device = f"{existing.name} of {machine.name}"
            if what := checkpoint_needs(config, settings, device, existing.compute_capability):
                yield Mistake(
                    option="instance_type", what=what, hint="use a type such as ml.g5.xlarge or ml.g6.xlarge"
                )
                return


def _draft(config: Mapping[str, Any], draft: str, deps: Dependencies) -> Iterator[Mistake]:
    """A draft that cannot be read is not judged: only the container needs it."""
    try:
        hub = deps.hub(draft)
        found = draft_mistake(config, read_json(hub, hub.listing(draft, "main"), "config.json"), draft)
    except LmiError:
        return
    if found is not None:
        yield found
