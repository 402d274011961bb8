"""The requests of a cell: its own prompts, its lengths in the body, its batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lmi_deploy.bench.experiment_design import Cell
from lmi_deploy.bench.model_tokenizer import (
    ModelTokenizer,
    model_tokenizer,
    tokenizer_at,
    tokenizer_or_reason,
)
from lmi_deploy.bench.probe_request import probe_request
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.request_images import image_size, synthetic_images, with_images
from lmi_deploy.bench.synthetic_prompts import (
    MOST_PROMPTS,
    PromptShape,
    SyntheticPrompts,
    approximate_prompt,
    synthetic_prompts,
)
from lmi_deploy.domain.deployment_spec import ModelSpec
from lmi_deploy.domain.inference_http import ImageFile, ProbeSpec
from lmi_deploy.domain.recipe_bench_keys import Bench
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import UsageRefused
from lmi_deploy.workflows.dependencies import Dependencies

_FEWEST: Final = 32

Synthetic = Callable[[PromptShape], Sequence[BenchRequest]]
"""Prompts of that shape, for the model of the deployment."""


class ModelPrompts:
    """Synthetic prompts for one deployment, by the tokenizer of its model or that of `bench.tokenizer`. `notices` say
    how they are counted.
    """

    def __init__(self, bench: Bench, recipe: Recipe, model: ModelSpec, deps: Dependencies) -> None:
        self._bench, self._recipe, self._model, self._deps = bench, recipe, model, deps
        self._tokenizer: ModelTokenizer | None = None
        self._reason = ""
        self._made: dict[PromptShape, SyntheticPrompts] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        if self._reason:
            return (f"prompts are approximate, one word for each token: {self._reason}",)
        return (f"prompts are counted by the tokenizer of {self._tokenizer.name}",) if self._tokenizer else ()

    def of(self, shape: PromptShape) -> Sequence[BenchRequest]:
        """UsageRefused if `bench.tokenizer` cannot be read; without it, a model may have none."""
        if self._tokenizer is None and not self._reason:
            self._read_tokenizer()
        if shape not in self._made:
            self._made[shape] = self._prompts(shape)
        return self._made[shape].requests

    def _prompts(self, shape: PromptShape) -> SyntheticPrompts:
        if self._tokenizer is None:
            return approximate_prompt(shape, self._reason)
        bench = self._bench
        asked = bench.requests + (bench.warmup or 0) if bench.requests else MOST_PROMPTS
        return synthetic_prompts(
            shape, self._tokenizer, seed=bench.seed, most=max(_FEWEST, min(asked, MOST_PROMPTS))
        )

    def _read_tokenizer(self) -> None:
        named = self._bench.tokenizer
        if named is None:
            model = self._model
            self._tokenizer, self._reason = tokenizer_or_reason(model.model_id, model.commit, self._deps)
            return
        path = Path(self._recipe.origin).parent / Path(named).expanduser()
        self._tokenizer = tokenizer_at(path) if path.exists() else model_tokenizer(named, "main", self._deps)


def cell_requests(
    bench: Bench,
    cell: Cell,
    prompts: Sequence[BenchRequest],
    *,
    probe: ProbeSpec,
    synthetic: Synthetic,
    images: Sequence[ImageFile] = (),
) -> tuple[BenchRequest, ...]:
    """By default the deployment's own probe. `images` are the files of `bench.images`. UsageRefused if a value of the
    cell or of `bench` has no place in the request.
    """
    given = [*prompts] if bench.prompt is None else [BenchRequest(prompt=bench.prompt)]
    if cell.input_tokens:
        if given:
            hint = "remove the prompt, or input_tokens"
            raise UsageRefused("bench.input_tokens: the requests have prompts of their own", hint=hint)
        given = [*synthetic(_shape(bench, cell.input_tokens))]
    if bench.body is not None:
        found = [_filled(bench, cell, one) for one in given] or [_filled(bench, cell, None)]
    elif given:
        found = given
    else:
        found = [probe_request(probe)]
    if bench.image_size is not None:
        images = synthetic_images(image_size(bench.image_size), seed=bench.seed)
    if images:
        found = [*with_images(found, images, each=bench.images_per_request or 1)]
    if bench.body is None and all(one.body is not None for one in found):
        _require_prompts(bench, cell)
    return tuple(_batched(one, cell.batch) for one in found) if cell.batch else tuple(found)


def _require_prompts(bench: Bench, cell: Cell) -> None:
    """Whole bodies have their own length and parameters."""
    for key, value in (("output_tokens", cell.output_tokens), ("parameters", bench.parameters)):
        if value:
            whose = "of bench.prompts" if bench.prompts else "of the probe"
            what = f"bench.{key}: no effect, because the requests {whose} are whole bodies"
            raise UsageRefused(what, hint=f"write it into the bodies, or remove {key}")


def _shape(bench: Bench, tokens: int) -> PromptShape:
    return PromptShape(tokens=tokens, prefix_tokens=bench.prefix_tokens or 0, prefixes=bench.prefixes or 1)


def _filled(bench: Bench, cell: Cell, prompt: BenchRequest | None) -> BenchRequest:
    """The body with the values of the cell; of a text that is not JSON as it is."""
    assert bench.body is not None
    values = {"prompt": prompt.prompt if prompt else None, "output_tokens": cell.output_tokens}
    given = {"{" + name + "}": value for name, value in values.items() if value is not None}
    unused = [name for name in given if f'"{name}"' not in bench.body]
    if unused:
        what = f"bench.body: it has no value {unused[0]}, so {unused[0][1:-1]} has no effect"
        raise UsageRefused(what, hint=f'write "{unused[0]}" where the body needs it')
    if not given:
        return BenchRequest(body=bench.body.encode(), content_type=bench.content_type)
    try:
        value = _replaced(json.loads(bench.body), given)
    except ValueError as reason:
        raise UsageRefused(f"bench.body: not JSON ({reason})", hint="correct the body") from None
    body = json.dumps(value, ensure_ascii=False).encode()
    filled = BenchRequest(body=body, content_type=bench.content_type)
    return _counted(filled, prompt, bench.body.count('"{prompt}"')) if prompt else filled


def _counted(request: BenchRequest, prompt: BenchRequest, times: int) -> BenchRequest:
    """With the counts of a prompt that is in it so many times."""
    tokens, asked = prompt.input_tokens, prompt.asked_input_tokens
    return replace(
        request,
        input_tokens=tokens * times if tokens else None,
        asked_input_tokens=asked * times if asked else None,
    )


def _replaced(value: Any, given: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, given) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, given) for item in value]
    return given.get(value, value) if isinstance(value, str) else value


def _batched(request: BenchRequest, count: int) -> BenchRequest:
    """The JSON body with `inputs` so many times; a list of that length stays."""
    try:
        value = json.loads(request.body or b"")
        inputs = value["inputs"]
    except (ValueError, KeyError, TypeError):
        raise UsageRefused(
            "bench.batch: the request is no JSON body with `inputs`", hint="write it as bench.body"
        ) from None
    if not isinstance(inputs, list):
        inputs, request = [inputs] * count, _counted(request, request, count)
    elif len(inputs) != count:
        what = f"bench.batch: {count}, and the body has {len(inputs)} inputs"
        raise UsageRefused(what, hint="write one of them, or as many")
    body = json.dumps({**value, "inputs": inputs}, ensure_ascii=False)
    return replace(request, body=body.encode(), items=count)
