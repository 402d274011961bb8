"""Run by the serving environment's Python: `tiny_models.py TASK OUT` writes a random model, always the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found]
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors  # type: ignore[import-not-found]
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


KINDS: dict[str, Callable[[int], Any]] = {
    "text2text-generation": t5,
    "text-classification": classifier,
    "question-answering": reader,
    "text-embedding": encoder,
}


def make(kind: str, out: Path) -> None:
    marked = tokenizer()
    torch.manual_seed(0)
    KINDS[kind](len(marked)).save_pretrained(out)
    marked.save_pretrained(out)
    for file in out.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
