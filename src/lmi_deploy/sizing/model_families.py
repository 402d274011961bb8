"""The properties of a model family that config.json does not contain: kind of network, MLP, ties and windows, by
`model_type`.

Source: the configuration classes of huggingface/transformers (5.x) and the model files of vllm 0.11.0 and 0.23.0
(PyPI sdists, vllm/model_executor/models), read 2026-11-22. A model_type that is not listed never gets the verdict
"fits".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["decoder", "encoder", "encoder-decoder"]
WindowRule = Literal["none", "all", "flag", "alternate", "pattern", "chunk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    kind: Kind = "decoder"
    gated: bool = True
    """Whether the MLP has a gate: three matrices in place of two."""
    tied: bool = False
    """Whether embedding and output matrix are shared if config.json does not say."""
    window: WindowRule = "none"
    """The layers with a window, if config.json has no `layer_types`."""
    pattern: int = 0
    """Rule `pattern` or `chunk`: every n-th layer looks at everything."""
    kv_heads: int | None = None
    """Key/value heads if config.json has none; None: as many as query heads."""
    state: bool = False
    """Has linear-attention or state-space layers."""
    weights_from_config: bool = True
    """Whether the tensors can be derived from config.json alone."""


_LLAMA = Family()
_OLD = Family(gated=False, tied=True)
_ENCODER = Family(kind="encoder", gated=False, tied=True)
_GEMMA3 = Family(tied=True, window="pattern", pattern=6)
_HEADERS_ONLY = Family(weights_from_config=False)
_HYBRID = Family(state=True, weights_from_config=False)


def _each(names: str, family: Family) -> dict[str, Family]:
    return dict.fromkeys(names.split(), family)


FAMILIES: Final[dict[str, Family]] = {
    **_each(
        "llama yi aquila internlm internlm2 internlm3 deepseek baichuan olmo olmo2 granite stablelm", _LLAMA
    ),
    **_each("exaone glm glm4 ernie4_5 seed_oss smollm3 helium arcee hunyuan_v1_dense xverse minicpm", _LLAMA),
    **_each("mixtral qwen3 qwen3_moe glm4_moe minimax_m2 granitemoe olmoe phimoe ernie4_5_moe dots1", _LLAMA),
    **_each("deepseek_v2 deepseek_v3 deepseek_v32 kimi_k2 longcat_flash bailing_moe pangu_ultra_moe", _LLAMA),
    **_each(
        "qwen3_vl qwen3_vl_text qwen3_vl_moe qwen3_vl_moe_text qwen3_omni_moe_text glm4v_text glm4v_moe_text",
        _LLAMA,
    ),
    **_each("mistral phi3 mistral3 ministral", Family(window="all")),
    **_each(
        "qwen2 qwen2_moe qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text qwen2_5_omni_text",
        Family(window="flag"),
    ),
    **_each("nemotron phi apertus starcoder2 persimmon gptj codegen", Family(gated=False)),
    "gpt_neox": Family(gated=False),
    **_each("gpt2 opt bloom gpt_neo mpt xglm biogpt", _OLD),
    "gpt_bigcode": Family(gated=False, tied=True, kv_heads=1),
    **_each("falcon RefinedWeb RefinedWebModel", _OLD),
    "gemma": Family(tied=True),
    "cohere": Family(tied=True),
    "cohere2": Family(tied=True, window="pattern", pattern=4),
    "exaone4": Family(window="pattern", pattern=4),
    "gemma2": Family(tied=True, window="alternate"),
    **_each("gemma3 gemma3_text", _GEMMA3),
    "gpt_oss": Family(window="alternate"),
    **_each("llama4 llama4_text", Family(window="chunk", pattern=4)),
    **_each("gemma4 gemma4_text", Family(tied=True, window="pattern", pattern=6, weights_from_config=False)),
    **_each("chatglm dbrx grok jais orion smallthinker hunyuan_v1_moe gemma3n gemma3n_text", _HEADERS_ONLY),
    **_each(
        "qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text jamba bamba granitemoehybrid", _HYBRID
    ),
    **_each("mamba mamba2 falcon_mamba nemotron_h lfm2 falcon_h1", _HYBRID),
    **_each("t5 mt5 umt5 longt5", Family(kind="encoder-decoder", tied=True)),
    **_each(
        "bart mbart marian pegasus m2m_100 whisper", Family(kind="encoder-decoder", gated=False, tied=True)
    ),
    **_each("bert roberta xlm-roberta camembert electra mpnet distilbert nomic_bert modernbert", _ENCODER),
    **_each("deberta deberta-v2 albert gte new jina_bert xlm-roberta-xl ernie", _ENCODER),
}
"""Of a model with several parts (it sees or hears as well), the language part decides."""

NESTED: Final = ("text_config", "llm_config", "language_config", "language_model_config", "thinker_config")
"""The keys for the language part of such a model."""
NESTED_DEFAULTS: Final[dict[str, dict[str, int]]] = {
    "gemma3_text": {
        "vocab_size": 262208,
        "num_hidden_layers": 26,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
    "llama": {
        "vocab_size": 32000,
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
    },
}
"""Values that transformers leaves out of a nested table because they equal the class's own default (Gemma3TextConfig,
LlamaConfig). From a table that is not nested nothing is left out.
"""
VISION: Final = ("vision_config", "visual", "audio_config", "vision_encoder")
