"""The last step of a compiled encoder-decoder: greedy decoding, token by token, with the compiled decoder.

The first token's logits come from the decoder as a step of the ensemble; for each further token this model calls the
decoder, whose dynamic batching puts the calls of all running requests together.
"""

import asyncio
import json
import os

os.environ["USE_TORCH"] = "0"  # neither the tokenizer nor the configuration needs it, and its import takes seconds

import numpy as np
import triton_python_backend_utils as pb_utils
from transformers import AutoConfig, AutoTokenizer


class TritonPythonModel:
    def initialize(self, args):
        options = {key: each["string_value"] for key, each in json.loads(args["model_config"])["parameters"].items()}
        self.tokenizer = AutoTokenizer.from_pretrained(options["weights"])
        config = AutoConfig.from_pretrained(options["weights"])
        self.first, self.end, self.pad = config.decoder_start_token_id, config.eos_token_id, config.pad_token_id
        self.type = np.dtype(options["token_type"])
        self.limit = int(options["max_new_tokens"])

    async def execute(self, requests):
        return await asyncio.gather(*(self.answer(request) for request in requests))

    async def answer(self, request):
        logits, mask, hidden = (
            pb_utils.get_input_tensor_by_name(request, name).as_numpy()
            for name in ("first_logits", "attention_mask", "hidden_states")
        )
        ids = np.full((len(mask), 1), self.first, dtype=self.type)
        done = np.zeros(len(mask), dtype=bool)
        for step in range(self.limit):
            if step:
                answer = await self.decode(ids, mask, hidden)
                if answer.has_error():
                    return pb_utils.InferenceResponse([], answer.error())
                logits = pb_utils.get_output_tensor_by_name(answer, "logits").as_numpy()
            chosen = np.where(done, self.pad, logits[:, -1, :].argmax(axis=-1)).astype(self.type)
            ids = np.concatenate([ids, chosen[:, None]], axis=1)
            done |= chosen == self.end
            if done.all():
                break
        texts = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
        answer = np.array([[text.encode()] for text in texts], dtype=object)
        return pb_utils.InferenceResponse([pb_utils.Tensor("generated_text", answer)])

    async def decode(self, ids, mask, hidden):
        tensors = {"input_ids": ids, "encoder_attention_mask": mask, "encoder_hidden_states": hidden}
        call = pb_utils.InferenceRequest(
            model_name="decoder",
            requested_output_names=["logits"],
            inputs=[pb_utils.Tensor(name, each) for name, each in tensors.items()],
        )
        return await call.async_exec()
