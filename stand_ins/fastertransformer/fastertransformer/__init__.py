"""As much of FasterTransformer's Python package as LMI's handlers use; it answers every prompt with the same words.

Real: the model folder must be there, its heads must divide by the degree, and the names of the parameters are checked.
Not real: every word of an answer, and everything that needs a GPU.
"""

import json
from pathlib import Path
from typing import Any

WORDS = ("Das", "Haus", "ist", "wunderbar", ".")
DTYPES = ("fp32", "fp16", "bf16", "int8")
PARAMETERS = {
    "batch_size",
    "output_len",
    "inputs_embeds",
    "beam_width",
    "max_seq_len",
    "top_k",
    "top_p",
    "beam_search_diversity_rate",
    "temperature",
    "len_penalty",
    "repetition_penalty",
    "presence_penalty",
    "min_length",
    "random_seed",
    "is_return_output_log_probs",
    "is_return_cum_log_probs",
    "is_return_cross_attentions",
    "bad_words_list",
    "stop_words_list",
    "return_output_length",
    "return_cum_log_probs",
}
"""The arguments of `pipeline_generate` for T5 and GPT models."""


class Model:
    def __init__(self, model_type: str) -> None:
        self.model_type = model_type

    def pipeline_generate(self, prompts: list[str], **parameters: Any) -> list[str]:
        """One answer a prompt. TypeError for a parameter that FasterTransformer does not have."""
        unknown = sorted(parameters.keys() - PARAMETERS)
        if unknown:
            raise TypeError(f"pipeline_generate() got an unexpected keyword argument {unknown[0]!r}")
        if not isinstance(prompts, list) or not all(isinstance(each, str) for each in prompts):
            raise TypeError("pipeline_generate() takes a list of texts")
        length = int(parameters.get("output_len") or parameters.get("max_seq_len") or 200)
        answer = " ".join(WORDS[:length])
        return [answer if self.model_type == "t5" else f"{each} {answer}" for each in prompts]


def init_inference(
    model: str, tensor_para_size: int = 1, pipeline_para_size: int = 1, dtype: str = "fp32", **others: Any
) -> Model:
    """Raises ValueError for a degree that does not divide the attention heads, or an unknown number type."""
    config = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
    heads = config.get("num_heads") or config.get("n_head") or config.get("num_attention_heads") or 1
    degree = int(tensor_para_size)
    if dtype not in DTYPES:
        raise ValueError(f"data type {dtype} is not one of {', '.join(DTYPES)}")
    if heads % degree:
        raise ValueError(f"{heads} attention heads cannot be divided over {degree} GPUs")
    started = {"model": model, "tensor_para_size": degree, "pipeline_para_size": pipeline_para_size}
    print("FasterTransformer was started with", json.dumps({**started, "dtype": dtype, **others}), flush=True)
    return Model(config.get("model_type", ""))
