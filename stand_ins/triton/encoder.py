"""Stand-in for a compiled encoder: the same tensors, computed by transformers from the checkpoint beside it."""

import json

import torch
import triton_python_backend_utils as pb_utils
from transformers import AutoModelForSeq2SeqLM


class TritonPythonModel:
    def initialize(self, args):
        weights = json.loads(args["model_config"])["parameters"]["weights"]["string_value"]
        torch.manual_seed(0)  # as the decoder
        self.model = AutoModelForSeq2SeqLM.from_pretrained(weights, use_safetensors=True).eval().get_encoder()

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        ids, mask = (
            torch.from_numpy(pb_utils.get_input_tensor_by_name(request, name).as_numpy()).long()
            for name in ("input_ids", "attention_mask")
        )
        with torch.inference_mode():
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        return pb_utils.InferenceResponse([pb_utils.Tensor("last_hidden_state", hidden.float().numpy())])
