"""In place of the handlers of DJL's rolling batches (lmi-dist, TensorRT-LLM, transformers-neuronx): their forms of
request and response, with fixed words for tokens.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from djl_python import Input, Output

WORDS = ("Paris", " is", " the", " capital", ".")
LENGTH = 30
"""The default of max_new_tokens."""

started: dict[str, str] = {}


def handle(inputs: Input) -> Output | None:
    if not started:
        _start(inputs.get_properties())
    if inputs.is_empty():
        return None
    try:
        return _answer(inputs.get_as_json())
    except (KeyError, TypeError, ValueError) as exc:
        return Output().error(f"invalid payload: {exc!r}")


def _start(properties: dict[str, str]) -> None:
    """ValueError if the weights are not there, or the degree does not divide the attention heads."""
    location = Path(properties.get("model_id") or properties["model_dir"])
    config = json.loads((location / "config.json").read_text(encoding="utf-8"))
    degree, heads = int(properties.get("tensor_parallel_degree", 1)), config.get("num_attention_heads", 0)
    if heads % degree:
        raise ValueError(f"{heads} attention heads cannot be divided over {degree} devices")
    started.update({key: str(value) for key, value in properties.items()})
    print("the engine was started with", json.dumps(started, sort_keys=True), flush=True)


def _answer(request: dict[str, Any]) -> Output:
    if "messages" in request:
        words = _cut(request.get("max_tokens", LENGTH))
        message = {"role": "assistant", "content": "".join(words)}
        return _openai("chat.completion", {"message": message}, words)
    if "prompt" in request:
        words = _cut(request.get("max_tokens", LENGTH))
        return _openai("text_completion", {"text": "".join(words)}, words)
    words = _cut(request.get("parameters", {}).get("max_new_tokens", LENGTH))
    if not isinstance(request["inputs"], str):
        raise TypeError("inputs must be a text")
    if request.get("stream"):
        output = Output().add_stream_content(_tokens(words), lambda line: f"{line}\n".encode())
        output.add_property("content-type", "application/jsonlines")
        return output
    return Output().add_as_json({"generated_text": "".join(words)})


def _cut(length: Any) -> tuple[str, ...]:
    return WORDS[: int(length)]


def _openai(kind: str, choice: dict[str, Any], words: tuple[str, ...]) -> Output:
    finish = "stop" if len(words) == len(WORDS) else "length"
    usage = {"prompt_tokens": 1, "completion_tokens": len(words), "total_tokens": 1 + len(words)}
    choices = [{"index": 0, "finish_reason": finish, **choice}]
    return Output().add_as_json({"id": "stand-in", "object": kind, "choices": choices, "usage": usage})


def _tokens(words: tuple[str, ...]) -> Iterator[str]:
    for number, word in enumerate(words):
        line: dict[str, Any] = {"token": {"id": number, "text": word, "log_prob": 0.0}}
        if number + 1 == len(words):
            line["generated_text"] = "".join(words)
        yield json.dumps(line)
