"""Stand-in for a compiled decoder: the same tensors, computed by transformers from the checkpoint beside it."""

import json

import torch
import triton_python_backend_utils as pb_utils
from transformers import AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput


class TritonPythonModel:
    def initialize(self, args):
        weights = json.loads(args["model_config"])["parameters"]["weights"]["string_value"]
        torch.manual_seed(0)  # a rehearsal's checkpoint lacks weights: the same ones in every container
        self.model = AutoModelForSeq2SeqLM.from_pretrained(weights, use_safetensors=True).eval()
        self.suppressed = list(self.model.generation_config.suppress_tokens or ())

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        ids, mask, hidden = (
            torch.from_numpy(pb_utils.get_input_tensor_by_name(request, name).as_numpy())
            for name in ("input_ids", "encoder_attention_mask", "encoder_hidden_states")
        )
        with torch.inference_mode():
            logits = self.model(
                encoder_outputs=BaseModelOutput(last_hidden_state=hidden),
                attention_mask=mask.long(),
                decoder_input_ids=ids.long(),
            ).logits
            logits[..., self.suppressed] = float("-inf")
        return pb_utils.InferenceResponse([pb_utils.Tensor("logits", logits.float().numpy())])
