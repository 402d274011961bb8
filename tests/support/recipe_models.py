"""The models of the shipped recipes on the local Hub: their config.json and the headers of their weights.

Copied from the models' pages on 2026-11-23 as far as `lmi` and transformers read them. They have no tokenizer here, so
a rehearsal writes one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.support.hub import LocalHub, serve_hub
from tests.support.hub.repos import Blob, Repo, blob_of
from tests.support.model_shapes import LLAMA_8B, QWEN_7B
from tests.support.published_models import header_of

_SMOLLM2: Final[dict[str, Any]] = {
    **LLAMA_8B,
    "num_hidden_layers": 30,
    "hidden_size": 576,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "vocab_size": 49152,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "rope_theta": 100000,
}
_MINILM: Final[dict[str, Any]] = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
    "max_position_embeddings": 512,
    "vocab_size": 30522,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "pad_token_id": 0,
}
CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": _SMOLLM2,
    "meta-llama/Llama-3.1-8B-Instruct": LLAMA_8B,
    "Qwen/Qwen2.5-7B-Instruct": {**QWEN_7B, "architectures": ["Qwen2ForCausalLM"]},
    "sentence-transformers/all-MiniLM-L6-v2": _MINILM,
}
"""By the `model_id` of the recipes. A new recipe needs its model here."""


@contextmanager
def recipe_models() -> Iterator[LocalHub]:
    """A local Hub with all of them."""
    with serve_hub() as hub:
        for name, config in CONFIGS.items():
            publish_config(hub, name, config)
        yield hub


def publish_config(hub: LocalHub, name: str, config: dict[str, Any]) -> None:
    """A repository with the header of its weights and no data behind it."""
    first, size = header_of(name, {"config": config})
    sha256 = hashlib.sha256(name.encode()).hexdigest()
    weights = Blob(size=size, git_oid=sha256[:40], sha256=sha256, source=first)
    text = blob_of("config.json", json.dumps(config).encode())
    hub.state.models.add(Repo(name)).publish({"config.json": text, "model.safetensors": weights})
