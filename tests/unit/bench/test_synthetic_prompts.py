"""Synthetic prompts: their lengths are counted by real tokenizers of every kind."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from lmi_deploy.bench.model_tokenizer import ModelTokenizer, tokenizer_at
from lmi_deploy.bench.synthetic_prompts import PromptShape, prompt_count, synthetic_prompts
from lmi_deploy.errors import UsageRefused
from lmi_deploy.planning.stand_in_model import tokenizer_files


def _corpus() -> list[str]:
    chance = random.Random(4)
    syllables = ["ka", "lo", "mi", "ter", "sun", "ring", "pa", "del", "ost", "ven"]
    words = ["".join(chance.choices(syllables, k=chance.randint(1, 3))) for _ in range(400)]
    return [" ".join(chance.choices(words, k=200)) for _ in range(100)]


def byte_level() -> Tokenizer:
    """As of GPT-2, Llama 3, Qwen; a beginning is added to every text."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=["<s>"], show_progress=False)
    made.train_from_iterator(_corpus(), trainer)
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return made


def word_piece() -> Tokenizer:
    """As of BERT, cut after 64 tokens."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=900, special_tokens=["[UNK]"], show_progress=False)
    made.train_from_iterator(_corpus(), trainer)
    made.enable_truncation(64)
    return made


def unigram() -> Tokenizer:
    """As of T5."""
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=600, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(_corpus(), trainer)
    return made


def single_bytes() -> Tokenizer:
    """That of the stand-in models: it has no words."""
    return Tokenizer.from_str(tokenizer_files()["tokenizer.json"])


KINDS = (byte_level, word_piece, unigram, single_bytes)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def real(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Tokenizer:
    monkeypatch.setitem(os.environ, "TOKENIZERS_PARALLELISM", "false")
    kind: Callable[[], Tokenizer] = request.param
    return kind()


def ids(real: Tokenizer, text: str) -> list[int]:
    real.no_truncation()
    return list(real.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("tokens", [1, 2, 7, 300])
def test_prompts_have_exactly_the_asked_tokens(real: Tokenizer, tokens: int) -> None:
    own = ModelTokenizer(real.to_str().encode(), "org/model")
    made = synthetic_prompts(PromptShape(tokens=tokens), own, seed=1, most=40)
    assert {len(ids(real, one.prompt)) for one in made.requests} == {tokens}
    assert {one.input_tokens for one in made.requests} == {tokens}
    assert len(made.requests) == 40
    if tokens > 2:
        assert len({one.prompt for one in made.requests}) == 40
    assert "org/model" in made.source


def test_prompts_of_a_group_share_the_tokens_of_their_prefix_and_no_more(real: Tokenizer) -> None:
    own = ModelTokenizer(real.to_str().encode(), "org/model")
    shape = PromptShape(tokens=50, prefix_tokens=100, prefixes=3)
    made = synthetic_prompts(shape, own, seed=1, most=30)
    found = [ids(real, one.prompt) for one in made.requests]
    assert {len(one) for one in found} == {150}
    groups = [found[start::3] for start in range(3)]
    for group in groups:
        assert len({tuple(one[:100]) for one in group}) == 1
        assert len({tuple(one[:110]) for one in group}) == 10
    assert len({tuple(group[0][:20]) for group in groups}) == 3
    assert "150 tokens, the first 100 from 3 shared prefixes" in made.source


def test_same_seed_makes_the_same_prompts_and_another_others() -> None:
    own = ModelTokenizer(byte_level().to_str().encode(), "m")
    made = [synthetic_prompts(PromptShape(tokens=20), own, seed=seed, most=5) for seed in (1, 1, 2)]
    assert made[0] == made[1]
    assert made[0].requests != made[2].requests


def test_very_long_prompts_are_fewer() -> None:
    assert prompt_count(PromptShape(tokens=400_000), most=1000) == 10
    assert prompt_count(PromptShape(tokens=300_000, prefix_tokens=100_000), most=1000) == 10
    assert prompt_count(PromptShape(tokens=5_000_000), most=1000) == 1
    assert prompt_count(PromptShape(tokens=400), most=1000) == 1000


def test_tokenizer_of_a_folder_or_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(tokenizer_files()["tokenizer.json"])
    assert tokenizer_at(tmp_path).count(["abc"]) == [3]
    with pytest.raises(UsageRefused, match="No such file"):
        tokenizer_at(tmp_path / "none")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UsageRefused, match="cannot be read"):
        tokenizer_at(tmp_path)
