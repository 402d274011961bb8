"""In place of `djl_python.deepspeed`, which DJL's newest Python engine no longer has: its form of request and response
(0.20 to 0.27, without rolling batch).
"""

import json
from pathlib import Path
from typing import Any

from djl_python import Input, Output

WORDS = (" a", " service", " for", " large", " models", ".")
TASKS = ("text-generation", "text2text-generation", "text-classification", "question-answering")
DTYPES = ("fp32", "fp16", "bf16", "int8")

task = ""


def load_model(properties: dict[str, str]) -> str:
    """The task. ValueError as the real handler raises it: no config.json, a task or number type that it lacks."""
    location = Path(properties.get("model_id") or properties["model_dir"])
    if not (location / "config.json").is_file():
        raise ValueError(f"{location} does not contain a config.json. This is required for loading models")
    config = json.loads((location / "config.json").read_text(encoding="utf-8"))
    degree = int(properties.get("tensor_parallel_degree", 1))
    heads = config.get("n_head") or config.get("num_attention_heads") or config.get("num_heads") or degree
    dtype, named = properties.get("dtype", "fp32"), properties.get("task", "text-generation")
    if dtype not in DTYPES:
        raise ValueError(f"Invalid data type: {dtype}")
    if named not in TASKS:
        raise ValueError(f"task: {named} is not currently supported by DeepSpeed")
    if heads % degree:
        raise ValueError(f"{heads} attention heads cannot be divided over {degree} GPUs")
    print(
        "DeepSpeed was started with",
        json.dumps({"tp_size": degree, "dtype": dtype, "task": named}),
        flush=True,
    )
    return named


def handle(inputs: Input) -> Output | None:
    global task
    if not task:
        task = load_model(inputs.get_properties())
    if inputs.is_empty():
        return None
    try:
        return Output().add_as_json(_answers(inputs.get_as_json()))
    except (KeyError, TypeError, ValueError) as exc:
        return Output().error(str(exc))


def _answers(request: dict[str, Any]) -> list[dict[str, Any]]:
    """One a text; a generated text begins with its prompt."""
    texts = request["inputs"]
    prompts = texts if isinstance(texts, list) else [texts]
    parameters = request.get("parameters", {})
    words = "".join(WORDS[: int(parameters.get("max_new_tokens", len(WORDS)))])
    match task:
        case "text-generation":
            return [{"generated_text": f"{prompt}{words}"} for prompt in prompts]
        case "text2text-generation":
            return [{"generated_text": words.strip()} for _ in prompts]
        case "text-classification":
            return [{"label": "LABEL_0", "score": 0.5} for _ in prompts]
        case _:
            return [{"answer": words.strip(), "score": 0.5, "start": 0, "end": 1} for _ in prompts]
