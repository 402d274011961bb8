"""FLAN-T5 on FasterTransformer: {"inputs": text or texts, "parameters": {...}} is answered by {"outputs": ...}.

`fastertransformer` is in the image; the parameters and their defaults are those of its handler.
"""

import logging
from typing import Any

import fastertransformer
from djl_python import Input, Output
from transformers import T5Tokenizer

DEFAULTS: dict[str, Any] = {
    "beam_width": 1,
    "max_seq_len": 200,
    "top_k": 1,
    "top_p": 0.0,
    "beam_search_diversity_rate": 0.0,
    "temperature": 1.0,
    "len_penalty": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": None,
    "min_length": 0,
    "random_seed": 0,
    "is_return_output_log_probs": False,
    "is_return_cum_log_probs": False,
    "is_return_cross_attentions": False,
    "bad_words_list": None,
    "stop_words_list": None,
}
PIPELINE_PARALLEL = 1

model = None
tokenizer = None


def load_model(properties: dict[str, str]) -> tuple[Any, Any]:
    """The tokenizer and the model, split over the GPUs of the tensor-parallel degree."""
    location = properties.get("model_id") or properties["model_dir"]
    degree = int(properties["tensor_parallel_degree"])
    dtype = properties.get("dtype", "fp32")
    logging.info("loading %s in %s on %d GPUs", location, dtype, degree)
    return (
        T5Tokenizer.from_pretrained(location),
        fastertransformer.init_inference(location, degree, PIPELINE_PARALLEL, dtype),
    )


def handle(inputs: Input) -> Output | None:
    """Called once without content when the model is loaded, then for each request."""
    global model, tokenizer
    if model is None:
        tokenizer, model = load_model(inputs.get_properties())
    if inputs.is_empty():
        return None
    request = inputs.get_as_json()
    texts = request["inputs"]
    prompts = [texts] if isinstance(texts, str) else texts
    outputs = model.pipeline_generate(prompts, **{**DEFAULTS, **request.get("parameters", {})})
    return Output().add_as_json({"outputs": outputs})
