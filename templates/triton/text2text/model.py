"""Text to text (T5 and other encoder-decoders) with transformers: a model of Triton's Python backend.

Tensors: `text` and, optional, `parameters` (a JSON object: max_new_tokens, num_beams, temperature, top_p, top_k,
do_sample, repetition_penalty, length_penalty); the answer is `generated_text`. Requests that Triton batches go
through the model together where their parameters are equal; a bad one gets its own error.
"""

import json

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "auto": "auto"}
NUMBERS = {
    "max_new_tokens": (int, 1, 1_000_000),
    "num_beams": (int, 1, 64),
    "temperature": (float, 0.01, 100),
    "top_p": (float, 0, 1),
    "top_k": (int, 1, 1_000_000),
    "repetition_penalty": (float, 0.01, 100),
    "length_penalty": (float, -100, 100),
}


class TritonPythonModel:
    def initialize(self, args):
        self.options = {key: each["string_value"] for key, each in json.loads(args["model_config"])["parameters"].items()}
        on_gpu = args["model_instance_kind"] == "GPU" and torch.cuda.is_available()
        self.device = f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
        dtype = self.options["dtype"]
        dtype = "fp32" if dtype == "auto" and not on_gpu else dtype
        trusted = {"trust_remote_code": self.options["trust_remote_code"] == "true"}
        safe = None if self.options["trust_insecure_model_files"] == "true" else True
        weights = self.options["weights"]
        self.tokenizer = AutoTokenizer.from_pretrained(weights, **trusted)
        model = AutoModelForSeq2SeqLM.from_pretrained(weights, dtype=DTYPES[dtype], use_safetensors=safe, **trusted)
        self.model = model.eval().to(self.device)
        self.longest = int(self.options["max_input_length"])

    def execute(self, requests):
        responses, groups = {}, {}
        for index, request in enumerate(requests):
            try:
                texts, parameters = read(request, int(self.options["max_new_tokens"]))
                rows = [self.encode(text) for text in texts]
            except ValueError as error:
                responses[index] = pb_utils.InferenceResponse([], pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG))
                continue
            groups.setdefault(json.dumps(parameters, sort_keys=True), []).append((index, rows))
        for parameters, members in groups.items():
            made = self.generate([row for _, rows in members for row in rows], json.loads(parameters))
            for index, rows in members:
                texts, made = made[: len(rows)], made[len(rows) :]
                answer = np.array([[text.encode()] for text in texts], dtype=object)
                responses[index] = pb_utils.InferenceResponse([pb_utils.Tensor("generated_text", answer)])
        return [responses[index] for index in range(len(requests))]

    def encode(self, text):
        ids = self.tokenizer(text)["input_ids"]
        if not 0 < len(ids) <= self.longest:
            raise ValueError(f"text: {len(ids)} tokens; this model takes from 1 to {self.longest}")
        return ids

    def generate(self, rows, parameters):
        width, pad = max(map(len, rows)), self.tokenizer.pad_token_id or 0
        ids = torch.tensor([row + [pad] * (width - len(row)) for row in rows], device=self.device)
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=self.device)
        with torch.inference_mode():
            made = self.model.generate(input_ids=ids, attention_mask=mask, **parameters)
        return self.tokenizer.batch_decode(made, skip_special_tokens=True)


def read(request, max_new_tokens):
    """The texts of a request, and its parameters; ValueError for the client's mistake."""
    tensor = pb_utils.get_input_tensor_by_name(request, "text").as_numpy()
    try:
        texts = [bytes(each).decode() for each in tensor.reshape(-1)]
    except UnicodeDecodeError as error:
        raise ValueError(f"text: not UTF-8: {error}") from error
    parameters = {"max_new_tokens": max_new_tokens, "num_beams": 1, "do_sample": False}
    given = pb_utils.get_input_tensor_by_name(request, "parameters")
    if given is None:
        return texts, parameters
    said = {}
    for each in given.as_numpy().reshape(-1):
        value = json.loads(bytes(each) or b"{}")
        if not isinstance(value, dict) or (said and value != said):
            raise ValueError("parameters: expected one JSON object, the same for every text of a request")
        said = value
    sampled = {"temperature", "top_p", "top_k"} & said.keys()
    return texts, {**parameters, "do_sample": bool(sampled), **{name: number(name, each) for name, each in said.items()}}


def number(name, value):
    if name == "do_sample" and isinstance(value, bool):
        return value
    if name not in NUMBERS:
        raise ValueError(f"parameters: {name} is not supported; known are {', '.join(sorted(NUMBERS))}")
    kind, low, high = NUMBERS[name]
    right = (int,) if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, right) or not low <= value <= high:
        raise ValueError(f"parameters: {name}: expected a number from {low} to {high}, got {value!r:.80}")
    return kind(value)
