"""Which of OpenAI's requests a deployment's handler understands itself, and in which form it takes the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lmi_deploy.engines import djl_huggingface
from lmi_deploy.engines.deepspeed import engine as deepspeed
from lmi_deploy.engines.fastertransformer import engine as fastertransformer
from lmi_deploy.engines.inference_codec import Codec
from lmi_deploy.engines.neuronx import engine as neuronx
from lmi_deploy.engines.tensorrt_llm import engine as tensorrt_llm
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
    "image-text-to-text": OpenAIApi(chat=True, completions="", embeddings=""),
    "question-answering": OpenAIApi(chat=False, completions="", embeddings=""),
}

_ROLLING_BATCH = OpenAIApi(chat=True, completions="inputs", embeddings="")
"""It knows OpenAI's chat, but not its completions."""
_INPUTS = OpenAIApi(chat=False, completions="inputs", embeddings="")
_MODULES = {
    vllm.SERVICE: _TEXT,
    tensorrt_llm.SERVICE: _TEXT,
    tensorrt_llm.ROLLING: _ROLLING_BATCH,
    neuronx.MODULE: _ROLLING_BATCH,
    deepspeed.MODULE: _INPUTS,
    fastertransformer.MODULE: _INPUTS,
    djl_huggingface.MODULE: _INPUTS,
}

_SERVERS: Mapping[str, OpenAIApi] = {
    "vllm-server": OpenAIApi(chat=True, completions="prompt", embeddings="input"),
    "sglang": OpenAIApi(chat=True, completions="", embeddings=""),
    "tei": OpenAIApi(chat=False, completions="", embeddings="inputs"),
}
"""/invocations of servers of their own, by their engine."""


def openai_api(codec: Codec) -> OpenAIApi:
    """Of a handler that lmi does not know: OpenAI's forms, which it may refuse itself."""
    entry_point = codec.handler.entry_point
    if codec.engine.name in _SERVERS:
        return _SERVERS[codec.engine.name]
    if codec.handler.template in _TEMPLATES:
        return _TEMPLATES[codec.handler.template]
    if codec.task == "text-embedding":
        return OpenAIApi(chat=False, completions="", embeddings="inputs")
    if codec.engine.name in ("vllm", "lmi-dist") and entry_point == djl_huggingface.MODULE:
        return _ROLLING_BATCH
    if entry_point in _MODULES:
        return _MODULES[entry_point]
    return OpenAIApi(chat=True, completions="prompt", embeddings="inputs")
