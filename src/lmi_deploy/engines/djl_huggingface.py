"""What DJL's built-in handler `djl_python.huggingface` takes and gives; its limits are not its user's mistake.

On a CPU, without rolling batch, it was seen (0.34.0, transformers 4.57.6) to need `option.rolling_batch=disable`, and
to take one form of body: `{"inputs": text or list, "parameters": {...}}`. It hands the parameters to `generate` as they
are, so `seed`, `stop_sequences`, `return_full_text` and a temperature of 0 end in a 424, and so do chat bodies
and `prompt`. It ignores `stream`: `option.enable_streaming=huggingface` streams every answer, as lines of
`{"outputs": [text]}` that begin with the prompt and, when something breaks, end with `{"outputs": "the reason"}`;
the value `true` fails for a single text, and a tokenizer that gives `token_type_ids` to a model that takes none
breaks every stream.
"""

from __future__ import annotations

from typing import Any, Final

from lmi_deploy.domain.inference_http import Chunk, InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_keys import Task
from lmi_deploy.engines.engine import Decoder
from lmi_deploy.engines.response_stream_decoder import read_json, read_line, response_decoder
from lmi_deploy.errors import UsageRefused

MODULE: Final = "djl_python.huggingface"
PACKAGES: Final = ("peft==0.21.2", "pillow==13.0.0", "pydantic==2.14.3")
"""Imports beyond those of lmi's own handler."""
TASKS: Final[dict[Task, str]] = {"text-embedding": "feature-extraction"}
"""Tasks whose name differs from ours."""
NAMES: Final = {"max_tokens": "max_new_tokens"}
REFUSED: Final = ("seed", "stop", "stop_sequences", "return_full_text")


def body(request: InferenceRequest, task: Task | None) -> dict[str, Any]:
    """Raises UsageRefused for a request that the server would answer with an error."""
    given = (
        ("a system prompt", request.system),
        ("earlier turns", request.history),
        ("images", request.images),
    )
    for what, value in given:
        if value:
            raise _cannot(what)
    for key in REFUSED:
        if key in request.parameters:
            raise _cannot(f"the parameter {key}")
    requested = {NAMES.get(key, key): value for key, value in request.parameters.items()}
    if requested.get("temperature") == 0:
        del requested["temperature"]
        requested["do_sample"] = False
    elif "temperature" in requested or "top_p" in requested:
        requested.setdefault("do_sample", True)
    return {"inputs": request.prompt, **({"parameters": requested} if requested else {})}


def _cannot(what: str) -> UsageRefused:
    return UsageRefused(
        f"{MODULE} cannot take {what}: it passes every key to transformers' generate, which fails",
        hint="remove handler.builtin from the recipe: the template text-generation accepts it",
    )


def decoder(head: ResponseHead, request: InferenceRequest) -> Decoder:
    return response_decoder(head, full=_JsonReader(request.prompt), line=_Line(request.prompt))


class _JsonReader:
    """Every text starts with its prompt, which is not shown again."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt

    def __call__(self, value: Any) -> Chunk:
        chunk = read_json(value)
        return Chunk(text=chunk.text.removeprefix(self._prompt), tokens=chunk.tokens, finish=chunk.finish)


class _Line:
    """The first line is the prompt; `outputs` that is no list is an error."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt

    def __call__(self, value: Any) -> Chunk:
        if isinstance(value, dict) and isinstance(value.get("outputs"), str):
            return Chunk(error=value["outputs"])
        chunk = read_line(value)
        if self._prompt and chunk.text.strip() == self._prompt.strip():
            self._prompt = ""
            return Chunk()
        self._prompt = ""
        return chunk
