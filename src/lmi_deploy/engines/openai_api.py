"""Which of OpenAI's requests a deployment's handler understands itself, and in which form it takes the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lmi_deploy.engines import huggingface
from lmi_deploy.engines.inference_codec import Codec
from lmi_deploy.engines.vllm import engine as vllm

TextField = Literal["", "prompt", "inputs"]
EmbeddingField = Literal["", "input", "inputs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIApi:
    """`completions`, `embeddings`: the key that holds the texts; OpenAI's own means that the whole body is
    understood, `inputs` that it is LMI's form, empty that there is no such request.
    """

    chat: bool
    completions: TextField
    embeddings: EmbeddingField


_TEXT = OpenAIApi(chat=True, completions="prompt", embeddings="")
_TEMPLATES = {
    "text-generation": _TEXT,
    "text2text-generation": OpenAIApi(chat=False, completions="inputs", embeddings=""),
    "text-embedding": OpenAIApi(chat=False, completions="", embeddings="input"),
    "text-classification": OpenAIApi(chat=False, completions="", embeddings=""),
}


def openai_api(codec: Codec) -> OpenAIApi:
    """Of a handler that lmi does not know: OpenAI's forms, which it may refuse itself."""
    entry_point = codec.handler.entry_point
    if codec.handler.template in _TEMPLATES:
        return _TEMPLATES[codec.handler.template]
    if codec.task == "text-embedding":
        return OpenAIApi(chat=False, completions="", embeddings="inputs")
    if codec.module.name == "vllm" and entry_point == vllm.ROLLING:
        # The rolling batch knows OpenAI's chat, but not its completions.
        return OpenAIApi(chat=True, completions="inputs", embeddings="")
    if entry_point == vllm.SERVICE:
        return _TEXT
    if entry_point == huggingface.MODULE:
        return OpenAIApi(chat=False, completions="inputs", embeddings="")
    return OpenAIApi(chat=True, completions="prompt", embeddings="inputs")
