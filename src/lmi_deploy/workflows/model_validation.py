"""Check a recipe against its model: what the engine would refuse at its start, once config.json is known."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.speculative_decoding import draft_model
from lmi_deploy.errors import LmiError
from lmi_deploy.planning.compute_capability import Mistake
from lmi_deploy.planning.model_compatibility import (
    ModelReview,
    has_known_rules,
    is_above_options,
    review_model,
)
from lmi_deploy.planning.task_detection import unusual_files
from lmi_deploy.sizing.fit_assessment import Checkpoint, Verdict
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.fit import judge, recipe_request
from lmi_deploy.workflows.gather_facts import read_json
from lmi_deploy.workflows.hardware_selection import choose_instance
from lmi_deploy.workflows.price_refresh import price_table
from lmi_deploy.workflows.safetensors_headers import read_checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is known of a recipe and its model. `fit` is the verdict of `lmi fit`."""

    fit: Verdict
    mistakes: tuple[Mistake, ...] = ()
    notes: tuple[str, ...] = ()


def judge_model(recipe: Recipe, deps: Dependencies) -> Judgement:
    """Reads config.json and the headers of the weights, nothing more. NotFound and AccessError as `lmi fit`."""
    request = recipe_request(recipe, deps)
    checkpoint = read_checkpoint(request.model_id, request.revision, deps.hub(request.model_id))
    recipe, why = choose_instance(recipe, lambda: checkpoint, deps, region=recipe.endpoint.region or "")
    request = replace(request, instances=recipe.instance_type)
    outcome = judge(request, checkpoint, price_table(deps), help_tight=False)
    review = review_with_draft(
        recipe, checkpoint.table, deps, machine=request.machine, files=checkpoint.files
    )
    found = [*_unusual(recipe, checkpoint), *review.mistakes]
    notes = [*why, *review.notes]
    match outcome.fit.verdict:
        # A class or a device that is refused needs no second message.
        case "does-not-fit" if not any(map(is_above_options, found)):
            hint = (
                f"try {outcome.remedies[0].what}" if outcome.remedies else "`lmi fit` shows the calculation"
            )
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


def review_with_draft(
    recipe: Recipe,
    config: Mapping[str, Any],
    deps: Dependencies,
    *,
    machine: Machine | None,
    files: Collection[str],
) -> ModelReview:
    """`review_model`, with the config.json of a draft model if the recipe names one that can be read: only the
    container needs it."""
    draft: dict[str, Any] = {}
    if has_known_rules(recipe) and (name := draft_model(dict(recipe.options))):
        with suppress(LmiError):
            hub = deps.hub(name)
            draft = read_json(hub, hub.listing(name, "main"), "config.json")
    return review_model(recipe, config, machine=machine, files=files, draft=draft)
