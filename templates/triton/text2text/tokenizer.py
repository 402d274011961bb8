"""The first step of a compiled encoder-decoder: texts to token ids, padded to a multiple of 8.

Equal widths let Triton put the requests of several clients into one batch of the encoder.
"""

import json
import os

os.environ["USE_TORCH"] = "0"  # neither the tokenizer nor the configuration needs it, and its import takes seconds

import numpy as np
import triton_python_backend_utils as pb_utils
from transformers import AutoConfig, AutoTokenizer

MULTIPLE = 8


class TritonPythonModel:
    def initialize(self, args):
        options = {key: each["string_value"] for key, each in json.loads(args["model_config"])["parameters"].items()}
        self.tokenizer = AutoTokenizer.from_pretrained(options["weights"])
        config = AutoConfig.from_pretrained(options["weights"])
        self.first = config.decoder_start_token_id
        self.type = np.dtype(options["token_type"])
        self.longest = int(options["max_input_length"])

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensor = pb_utils.get_input_tensor_by_name(request, "text").as_numpy()
        try:
            texts = [bytes(each).decode() for each in tensor.reshape(-1)]
        except UnicodeDecodeError as error:
            return refused(f"text: not UTF-8: {error}")
        made = self.tokenizer(texts, padding=True, pad_to_multiple_of=MULTIPLE, return_tensors="np")
        longest = int(made["attention_mask"].sum(axis=1).max())
        if longest > self.longest:
            return refused(f"text: {longest} tokens; this model takes from 1 to {self.longest}")
        first = np.full((len(texts), 1), self.first)
        tensors = {"input_ids": made["input_ids"], "attention_mask": made["attention_mask"], "first_ids": first}
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, np.ascontiguousarray(each, dtype=self.type)) for name, each in tensors.items()]
        )


def refused(message):
    return pb_utils.InferenceResponse([], pb_utils.TritonError(message, pb_utils.TritonError.INVALID_ARG))
