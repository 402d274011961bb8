"""The recipes and requests that the key `bench` of a recipe names, and their mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.domain.inference_http import ImageFile, read_image
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
    _require_job_keys(bench)
    if bench.prompts is None:
        return ()
    path = Path(recipe.origin).parent / bench.prompts
    return read_requests(read_text(path), str(path))


def _require_job_keys(bench: Bench) -> None:
    keys = ("instances", "job_instance_type", "job_role", "job_time_limit")
    if bench.via != "job" and (
        unused := next((key for key in keys if getattr(bench, key) is not None), None)
    ):
        raise UsageRefused(
            f"bench.{unused}: no effect without via: job", hint=f"add via: job, or remove {unused}"
        )


def experiment_images(recipe: Recipe, bench: Bench) -> tuple[ImageFile, ...]:
    """The files of `bench.images`. UsageRefused of one that is no image, and of what contradicts it."""
    from lmi_deploy.api.input_files import read_bytes

    key = "images" if bench.images else "image_size"
    if not bench.images and bench.image_size is None:
        if bench.images_per_request is not None:
            hint = "add images or image_size, or remove images_per_request"
            raise UsageRefused("bench.images_per_request: no effect without images", hint=hint)
        return ()
    if bench.images and bench.image_size is not None:
        raise UsageRefused("bench: images and image_size cannot be combined", hint="use one of them")
    if not bench.chat:
        raise UsageRefused(f"bench.{key}: only a chat has images", hint="remove chat: false")
    if bench.image_size is not None:
        _require_size(bench.image_size)
    paths = [Path(recipe.origin).parent / Path(name).expanduser() for name in bench.images]
    return tuple(read_image(read_bytes(path), str(path)) for path in paths)


def _require_size(size: str) -> None:
    from lmi_deploy.bench.request_images import image_size

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
        variant = read(one.variant.recipe, one.variant.overlay or None, one.overrides)
        if recipe.bench.via == "job" and variant.endpoint.target == "local":
            raise UsageRefused(
                f"bench.via: job: {one.label} runs on this machine, and no machine in AWS reaches it",
                hint="remove via: job, or deploy it to SageMaker (endpoint.target)",
            )
    objectives_of(recipe.bench.objectives)
    experiment_prompts(recipe, recipe.bench)
    experiment_images(recipe, recipe.bench)
