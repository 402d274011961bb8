"""In place of `djl_python.fastertransformer`, which DJL's newest Python engine no longer has: its form of request and
response (0.21 to 0.24).
"""

from typing import Any

import fastertransformer
from djl_python import Input, Output

RENAMED = {
    "max_new_tokens": "max_seq_len",
    "max_length": "max_seq_len",
    "num_beams": "beam_width",
    "length_penalty": "len_penalty",
}
GPT_LENGTH = 50

model: fastertransformer.Model | None = None


def load_model(properties: dict[str, str]) -> fastertransformer.Model:
    return fastertransformer.init_inference(
        properties.get("model_id") or properties["model_dir"],
        int(properties.get("tensor_parallel_degree", 1)),
        int(properties.get("pipeline_parallel_degree", 1)),
        properties.get("dtype", "fp32"),
    )


def handle(inputs: Input) -> Output | None:
    global model
    if model is None:
        model = load_model(inputs.get_properties())
    if inputs.is_empty():
        return None
    try:
        return Output().add_as_json(_answers(model, inputs.get_as_json()))
    except (KeyError, TypeError, ValueError) as exc:
        return Output().error(str(exc))


def _answers(loaded: fastertransformer.Model, request: dict[str, Any]) -> list[dict[str, str]]:
    texts = request["inputs"]
    prompts = [texts] if isinstance(texts, str) else texts
    given = {RENAMED.get(key, key): value for key, value in request.get("parameters", {}).items()}
    if loaded.model_type != "t5":
        length = given.pop("max_seq_len", GPT_LENGTH)
        given |= {"batch_size": len(prompts), "output_len": length}
    return [{"generated_text": text} for text in loaded.pipeline_generate(prompts, **given)]
