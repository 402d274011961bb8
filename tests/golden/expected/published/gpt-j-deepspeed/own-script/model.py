"""GPT-J on DeepSpeed: {"inputs": text or texts, "parameters": {...}} is answered by [{"generated_text": text}].

The parameters are those of transformers' `generate`. Without a GPU it runs without DeepSpeed's kernels, which need one.
"""

import logging
from typing import Any

import deepspeed
import torch
from djl_python import Input, Output
from transformers import AutoModelForCausalLM, AutoTokenizer

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}

model = None
tokenizer = None


def load_model(properties: dict[str, str]) -> tuple[Any, Any]:
    """The model as DeepSpeed runs it, and its tokenizer."""
    location = properties.get("model_id") or properties["model_dir"]
    dtype = DTYPES[properties.get("dtype", "fp16")]
    degree = int(properties.get("tensor_parallel_degree", 1))
    has_kernels = torch.cuda.is_available()
    logging.info("loading %s in %s on %d devices, with kernels: %s", location, dtype, degree, has_kernels)
    loaded = AutoModelForCausalLM.from_pretrained(location, torch_dtype=dtype, low_cpu_mem_usage=True)
    engine = deepspeed.init_inference(
        loaded, tensor_parallel={"tp_size": degree}, dtype=dtype, replace_with_kernel_inject=has_kernels
    )
    texts = AutoTokenizer.from_pretrained(location, padding_side="left")
    texts.pad_token = texts.pad_token or texts.eos_token
    return engine, texts


def handle(inputs: Input) -> Output | None:
    """Called once without content when the model is loaded, then for each request."""
    global model, tokenizer
    if model is None:
        model, tokenizer = load_model(inputs.get_properties())
    if inputs.is_empty():
        return None
    request = inputs.get_as_json()
    texts = request["inputs"]
    prompts = [texts] if isinstance(texts, str) else texts
    tokens = tokenizer(prompts, padding=True, return_tensors="pt").to(model.module.device)
    with torch.no_grad():
        output = model.generate(
            input_ids=tokens.input_ids,
            attention_mask=tokens.attention_mask,
            pad_token_id=tokenizer.pad_token_id,
            **request.get("parameters", {}),
        )
    answers = tokenizer.batch_decode(output, skip_special_tokens=True)
    return Output().add_as_json([{"generated_text": text} for text in answers])
