"""Run by the serving environment's Python: `tiny_models.py TASK OUT` writes a random model, always the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found]
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (  # type: ignore[import-not-found]
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

SIZE = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 64}


def tokenizer() -> Any:
    """One token per byte, and marks for padding, end, begin and separation."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    marks = ["<pad>", "</s>", "<s>"]
    vocabulary = {letter: place for place, letter in enumerate([*marks, *letters])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B:1 </s>:1", special_tokens=[("</s>", 1)]
    )
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        eos_token="</s>",
        bos_token="<s>",
        model_input_names=names,
    )


def t5(size: int) -> Any:
    config = T5Config(
        vocab_size=size,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        n_positions=64,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(config)


def classifier(size: int) -> Any:
    labels = {0: "BAD", 1: "FAIR", 2: "GOOD"}
    config = BertConfig(vocab_size=size, max_position_embeddings=64, id2label=labels, num_labels=3, **SIZE)
    return BertForSequenceClassification(config)


def reader(size: int) -> Any:
    return BertForQuestionAnswering(BertConfig(vocab_size=size, max_position_embeddings=64, **SIZE))


def encoder(size: int) -> Any:
    return BertModel(BertConfig(vocab_size=size, max_position_embeddings=64, **SIZE))


def save_vision(out: Path) -> None:
    """LLaVA: CLIP's tower of 4 patches, Llama, and a chat template that says where images go."""
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    marked = tokenizer()
    marked.add_special_tokens({"additional_special_tokens": ["<image>"]})
    marked.model_input_names = ["input_ids", "attention_mask"]
    image = marked.convert_tokens_to_ids("<image>")
    sees = CLIPVisionConfig(image_size=16, patch_size=8, projection_dim=32, **SIZE)
    writes = LlamaConfig(vocab_size=len(marked), max_position_embeddings=128, **SIZE)
    config = LlavaConfig(
        vision_config=sees, text_config=writes, image_token_index=image, vision_feature_layer=-1
    )
    LlavaForConditionalGeneration(config).save_pretrained(out)
    side = {"height": 16, "width": 16}
    LlavaProcessor(
        CLIPImageProcessor(size={"shortest_edge": 16}, crop_size=side),
        marked,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
        chat_template=CHAT_TEMPLATE,
    ).save_pretrained(out)


CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {% for part in message.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
KINDS: dict[str, Callable[[int], Any]] = {
    "text2text-generation": t5,
    "text-classification": classifier,
    "question-answering": reader,
    "text-embedding": encoder,
}


def make(kind: str, out: Path) -> None:
    torch.manual_seed(0)
    if kind == "image-text-to-text":
        save_vision(out)
    else:
        marked = tokenizer()
        KINDS[kind](len(marked)).save_pretrained(out)
        marked.save_pretrained(out)
    for file in out.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
