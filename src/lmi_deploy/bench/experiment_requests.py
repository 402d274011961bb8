"""The requests of a cell: its own prompt, its lengths in the body, its batch. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lmi_deploy.bench.experiment_design import Cell
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.recipe_bench_keys import Bench
from lmi_deploy.errors import UsageRefused

_WORD: Final = "the"


def cell_requests(
    bench: Bench, cell: Cell, prompts: Sequence[BenchRequest], probe: ProbeSpec
) -> tuple[BenchRequest, ...]:
    """By default the deployment's own probe. UsageRefused if the workload of the cell has no place in the request."""
    prompt = bench.prompt
    if cell.input_tokens:
        if prompt is not None or prompts:
            hint = "remove the prompt, or input_tokens"
            raise UsageRefused("bench.input_tokens: the requests have prompts of their own", hint=hint)
        prompt = " ".join([_WORD] * cell.input_tokens)
    if bench.body is not None:
        found = [_filled(bench, cell, prompt)]
    elif prompt is not None:
        found = [BenchRequest(prompt=prompt)]
    elif prompts:
        found = [*prompts]
    elif probe.prompt:
        found = [BenchRequest(prompt=probe.prompt)]
    else:
        found = [BenchRequest(body=probe.body.encode(), content_type=probe.content_type)]
    return tuple(_batched(one, cell.batch) for one in found) if cell.batch else tuple(found)


def _filled(bench: Bench, cell: Cell, prompt: str | None) -> BenchRequest:
    """The body with the values of the cell; of a text that is not JSON as it is."""
    assert bench.body is not None
    values = {"prompt": prompt, "output_tokens": cell.output_tokens}
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
    body = json.dumps(value, ensure_ascii=False)
    return BenchRequest(body=body.encode(), content_type=bench.content_type)


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
        inputs = [inputs] * count
    elif len(inputs) != count:
        what = f"bench.batch: {count}, and the body has {len(inputs)} inputs"
        raise UsageRefused(what, hint="write one of them, or as many")
    body = json.dumps({**value, "inputs": inputs}, ensure_ascii=False)
    return replace(request, body=body.encode(), items=count)
