"""The recipes and requests that the key `bench` of a recipe names, and their mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.errors import UsageRefused

if TYPE_CHECKING:
    from lmi_deploy.bench.prompt_files import BenchRequest
    from lmi_deploy.domain.recipe_bench_keys import Bench
    from lmi_deploy.domain.recipe_keys import Recipe


class VariantRecipes:
    """The recipes of the variants. The overlay of the command line is for variants without their own, its overrides
    are for all.
    """

    def __init__(self, recipe: Recipe, overlay: str | None, sets: Sequence[str]) -> None:
        self._origin, self._overlay, self._sets = recipe.origin, overlay, sets

    def __call__(self, path: str, overlay: str | None, sets: Sequence[str]) -> Recipe:
        origin = str(Path(self._origin).parent / path) if path else self._origin
        chosen = overlay or (None if path else self._overlay)
        return read_recipe(origin, overlay=chosen, sets=(*sets, *self._sets))


def experiment_prompts(recipe: Recipe, bench: Bench) -> Sequence[BenchRequest]:
    """Those of `bench.prompts`. UsageRefused if the file cannot be read."""
    from lmi_deploy.api.input_files import read_text
    from lmi_deploy.bench.prompt_files import read_requests

    given = [key for key in ("prompt", "prompts", "body") if getattr(bench, key) is not None]
    if len(given) > 1:
        raise UsageRefused(f"bench: {' and '.join(given)} cannot be combined", hint="use one of them")
    is_synthetic = bench.input_tokens is not None or "input_tokens" in dict(bench.matrix)
    for key, needed in (
        ("prefix_tokens", is_synthetic),
        ("tokenizer", is_synthetic),
        ("prefixes", bench.prefix_tokens),
    ):
        if getattr(bench, key) is not None and not needed:
            other = "prefix_tokens" if key == "prefixes" else "input_tokens"
            raise UsageRefused(
                f"bench.{key}: no effect without {other}", hint=f"add {other}, or remove {key}"
            )
    if bench.image_size is not None:
        _require_images(bench.image_size, bench)
    elif bench.images_per_request is not None:
        hint = "add image_size, or remove images_per_request"
        raise UsageRefused("bench.images_per_request: no effect without image_size", hint=hint)
    if bench.prompts is None:
        return ()
    path = Path(recipe.origin).parent / bench.prompts
    return read_requests(read_text(path), str(path))


def _require_images(size: str, bench: Bench) -> None:
    from lmi_deploy.bench.request_images import image_size

    if not bench.chat:
        raise UsageRefused("bench.image_size: only a chat has images", hint="remove chat: false")
    try:
        image_size(size)
    except UsageRefused as error:
        raise UsageRefused(f"bench.image_size: {error.message}", hint=error.hint) from None


def require_valid_experiment(recipe: Recipe, overlay: str | None, sets: Sequence[str]) -> None:
    """What can be known without the models: UsageRefused of the design, RecipeError of a variant's recipe."""
    if recipe.bench is None:
        return
    # Not at the top: few recipes have an experiment, and the statistics behind its design cost a third of a validation.
    from lmi_deploy.bench.experiment_design import design
    from lmi_deploy.bench.objectives import objectives_of

    read = VariantRecipes(recipe, overlay, sets)
    for one in design(recipe.bench):
        read(one.variant.recipe, one.variant.overlay or None, one.overrides)
    objectives_of(recipe.bench.objectives)
    experiment_prompts(recipe, recipe.bench)
