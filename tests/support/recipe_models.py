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

from lmi_deploy.hub.repositories import Blob
from lmi_deploy.planning.stand_in_model import tokenizer_files
from tests.support.hub import LocalHub, serve_hub
from tests.support.hub.repos import Repo, blob_of
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
_BERT_SQUAD: Final[dict[str, Any]] = {
    **_MINILM,
    "architectures": ["BertForQuestionAnswering"],
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
}
_FLAN_T5_XXL: Final[dict[str, Any]] = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "d_model": 4096,
    "d_kv": 64,
    "d_ff": 10240,
    "num_layers": 24,
    "num_decoder_layers": 24,
    "num_heads": 64,
    "vocab_size": 32128,
    "n_positions": 512,
    "relative_attention_num_buckets": 32,
    "feed_forward_proj": "gated-gelu",
    "is_encoder_decoder": True,
    "tie_word_embeddings": False,
    "decoder_start_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
_GPT_J: Final[dict[str, Any]] = {
    "architectures": ["GPTJForCausalLM"],
    "model_type": "gptj",
    "n_embd": 4096,
    "n_head": 16,
    "n_layer": 28,
    "n_positions": 2048,
    "rotary_dim": 64,
    "vocab_size": 50400,
    "bos_token_id": 50256,
    "eos_token_id": 50256,
    "tie_word_embeddings": False,
}
_GPT_2: Final[dict[str, Any]] = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
    "bos_token_id": 50256,
    "eos_token_id": 50256,
}
_T5_SMALL: Final[dict[str, Any]] = {
    **_FLAN_T5_XXL,
    "d_model": 512,
    "d_ff": 2048,
    "num_layers": 6,
    "num_decoder_layers": 6,
    "num_heads": 8,
    "feed_forward_proj": "relu",
    "tie_word_embeddings": True,
}
_BERT: Final[dict[str, Any]] = {
    **_MINILM,
    "architectures": ["BertForQuestionAnswering"],
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
}
_LLAVA: Final[dict[str, Any]] = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "ignore_index": -100,
    "image_token_index": 32000,
    "pad_token_id": 32001,
    "projector_hidden_act": "gelu",
    # Its other sizes are the defaults of transformers' class, as published.
    "text_config": {
        "architectures": ["LlamaForCausalLM"],
        "max_position_embeddings": 4096,
        "model_type": "llama",
        "rms_norm_eps": 1e-05,
        "torch_dtype": "float16",
        "vocab_size": 32064,
    },
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "vision_config": {
        "hidden_size": 1024,
        "image_size": 336,
        "intermediate_size": 4096,
        "model_type": "clip_vision_model",
        "num_attention_heads": 16,
        "num_hidden_layers": 24,
        "patch_size": 14,
        "projection_dim": 768,
        "vocab_size": 32000,
    },
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
    "vocab_size": 32064,
}
CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": _SMOLLM2,
    "google-bert/bert-large-uncased-whole-word-masking-finetuned-squad": _BERT_SQUAD,
    "meta-llama/Llama-3.1-8B-Instruct": LLAMA_8B,
    "Qwen/Qwen2.5-7B-Instruct": {**QWEN_7B, "architectures": ["Qwen2ForCausalLM"]},
    "sentence-transformers/all-MiniLM-L6-v2": _MINILM,
    "meta-llama/Meta-Llama-3-8B-Instruct": {**LLAMA_8B, "max_position_embeddings": 8192},
    "google/flan-t5-xxl": _FLAN_T5_XXL,
    "EleutherAI/gpt-j-6b": _GPT_J,
    "openai-community/gpt2": _GPT_2,
    "google-t5/t5-small": _T5_SMALL,
    "llava-hf/llava-1.5-7b-hf": _LLAVA,
    "csarron/bert-base-uncased-squad-v1": _BERT,
    "textattack/bert-base-uncased-MRPC": {**_BERT, "architectures": ["BertForSequenceClassification"]},
}
"""By the `model_id` of the recipes. A new recipe needs its model here."""
SEES: Final = ("llava-hf/llava-1.5-7b-hf",)
"""With a processor of images and its tokenizer: lmi writes a tokenizer for text alone."""
PICKLED: Final = {"google/flan-t5-xxl": ("main", True), "EleutherAI/gpt-j-6b": ("float16", False)}
"""Published as a pickle: the branch that the recipe names, and whether there are safetensors too."""


_CHAT_WITH_IMAGES: Final = (
    "{% for message in messages %}{{ message.role }}: {% for part in message.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


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
    branch, both = PICKLED.get(name, ("main", True))
    files = {"config.json": text, **({"pytorch_model.bin": weights} if name in PICKLED else {})}
    files |= {"model.safetensors": weights} if both else {}
    files |= {path: blob_of(path, json.dumps(text).encode()) for path, text in _processor(name, config)}
    repo = hub.state.models.add(Repo(name))
    for each in {"main", branch}:
        repo.publish(files, each)


def _processor(name: str, config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The files of LLaVA's processor, with a tokenizer of as many tokens as the model has."""
    if name not in SEES:
        return
    written = tokenizer_files()
    tokenizer, settings = json.loads(written["tokenizer.json"]), json.loads(written["tokenizer_config.json"])
    image, tokens = config["image_token_index"], tokenizer["model"]["vocab"]
    for number in range(len(tokens), config["vocab_size"]):
        tokens["<image>" if number == image else f"word{number}"] = number
    mark = {"id": image, "content": "<image>", "single_word": False, "lstrip": False, "rstrip": False}
    tokenizer["added_tokens"].append({**mark, "normalized": False, "special": True})
    side = config["vision_config"]["image_size"]
    yield "tokenizer.json", tokenizer
    yield "tokenizer_config.json", {**settings, "processor_class": "LlavaProcessor", "chat_template": None}
    yield "chat_template.json", {"chat_template": _CHAT_WITH_IMAGES}
    yield (
        "processor_config.json",
        {
            "processor_class": "LlavaProcessor",
            "image_token": "<image>",
            "num_additional_image_tokens": 1,
            "patch_size": config["vision_config"]["patch_size"],
            "vision_feature_select_strategy": config["vision_feature_select_strategy"],
        },
    )
    yield (
        "preprocessor_config.json",
        {
            "image_processor_type": "CLIPImageProcessor",
            "processor_class": "LlavaProcessor",
            "size": {"shortest_edge": side},
            "crop_size": {"height": side, "width": side},
        },
    )
