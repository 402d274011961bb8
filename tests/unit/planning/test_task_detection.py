"""The task of a model: the Hub's label, config.json and modules.json, in this order; and every published
model."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest

from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.task_detection import DetectedTask, detect_task, require_model
from tools.recognition_score import PARTS, class_score, read_classes, read_models, score

SAFE = ("config.json", "model.safetensors")


def listing(*paths: str, label: str | None = None) -> ModelListing:
    files = tuple(FileEntry(path=path, size=1, oid="0" * 40, kind="git-sha1") for path in paths or SAFE)
    return ModelListing(model_id="org/model", commit="0" * 40, files=files, pipeline_tag=label)


def recognition(architecture: str, label: str | None = None, *more: str, **config: Any) -> DetectedTask:
    return detect_task(listing(*SAFE, *more, label=label), {"architectures": [architecture], **config})


VISION = {"vision_config": {"hidden_size": 1024}}


@pytest.mark.parametrize(
    ("architecture", "config", "kind"),
    [
        ("LlamaForCausalLM", {}, "text-generation"),
        ("GPT2LMHeadModel", {}, "text-generation"),
        ("T5ForConditionalGeneration", {"model_type": "t5"}, "text2text-generation"),
        ("T5ForConditionalGeneration", {"model_type": ["t5"]}, "text2text-generation"),
        ("BartForConditionalGeneration", {"model_type": "bart"}, "text2text-generation"),
        ("MarianMTModel", {"model_type": "marian"}, "text2text-generation"),
        ("NewForConditionalGeneration", {"is_encoder_decoder": True}, "text2text-generation"),
        ("Llama4ForConditionalGeneration", {"model_type": "llama4", **VISION}, "vision-language"),
        ("Gemma3ForConditionalGeneration", {"model_type": "gemma3"}, "vision-language"),
        ("Mistral3ForConditionalGeneration", {"model_type": "mistral3", **VISION}, "vision-language"),
        ("Phi3VForCausalLM", {"img_processor": {"name": "clip"}}, "vision-language"),
        ("Qwen2AudioForConditionalGeneration", {"audio_config": {"d_model": 1280}}, "audio-language"),
        ("VoxtralForConditionalGeneration", {"audio_config": {"d_model": 1280}}, "audio-language"),
        ("BertModel", {"vocab_size": 30522}, "text-embedding"),
        ("CLIPModel", {**VISION, "vocab_size": 49408}, "other"),
        ("ViTModel", {"model_type": "vit"}, "other"),
        ("BertForSequenceClassification", {"id2label": {"0": "a", "1": "b"}}, "text-classification"),
        ("XLMRobertaForSequenceClassification", {"id2label": {"0": "LABEL_0"}}, "reranking"),
        ("BertForQuestionAnswering", {}, "question-answering"),
        ("BertForMaskedLM", {"vocab_size": 30522}, "other"),
        ("WhisperForConditionalGeneration", {"model_type": "whisper"}, "other"),
        ("BartForCausalLM", {"model_type": "bart", "is_encoder_decoder": True}, "text-generation"),
        ("BltForCausalLM", {"encoder_config": {"hidden_size": 1}}, "text-generation"),
        ("ReformerModelWithLMHead", {}, "text-generation"),
        ("EncoderDecoderModel", {"is_encoder_decoder": True}, "text2text-generation"),
        ("SeamlessM4TForTextToText", {"model_type": "seamless_m4t"}, "text2text-generation"),
        ("IdeficsForVisionText2Text", VISION, "vision-language"),
        ("XLNetForQuestionAnsweringSimple", {}, "question-answering"),
        ("LayoutLMForQuestionAnswering", {"model_type": "layoutlm"}, "other"),
        ("BlipForQuestionAnswering", VISION, "other"),
        ("UniSpeechForSequenceClassification", {"model_type": "unispeech"}, "other"),
        ("CsmForConditionalGeneration", {"model_type": "csm"}, "other"),
    ],
)
def test_task_is_recognised_from_config_json(architecture: str, config: dict[str, Any], kind: str) -> None:
    found = recognition(architecture, **config)
    assert found.kind == kind
    assert (found.task is None) == (kind == "other") == bool(found.advice)


@pytest.mark.parametrize(
    ("label", "architecture", "kind"),
    [
        ("feature-extraction", "Qwen3ForCausalLM", "text-embedding"),
        ("sentence-similarity", "MistralModel", "text-embedding"),
        ("text-ranking", "BertForSequenceClassification", "reranking"),
        ("zero-shot-classification", "BartForSequenceClassification", "text-classification"),
        ("fill-mask", "BertModel", "other"),
        ("automatic-speech-recognition", "VoxtralForConditionalGeneration", "other"),
        ("text-to-image", "", "other"),
        ("a-label-of-tomorrow", "LlamaForCausalLM", "text-generation"),
    ],
)
def test_hub_label_has_precedence_over_config_json(label: str, architecture: str, kind: str) -> None:
    assert recognition(architecture, label, vocab_size=32000).kind == kind


@pytest.mark.parametrize(
    ("label", "architecture", "config", "kind"),
    [
        ("text-generation", "T5ForConditionalGeneration", {"model_type": "t5"}, "text2text-generation"),
        ("text2text-generation", "LlamaForCausalLM", {}, "text-generation"),
        ("translation", "HunYuanDenseV1ForCausalLM", {}, "text-generation"),
        ("text-generation", "Llama4ForConditionalGeneration", VISION, "vision-language"),
        ("any-to-any", "Qwen2_5OmniForConditionalGeneration", {}, "vision-language"),
        ("text-classification", "XLMRobertaForSequenceClassification", {"num_labels": 1}, "reranking"),
    ],
)
def test_model_class_refines_the_task_of_the_label(
    label: str, architecture: str, config: dict[str, Any], kind: str
) -> None:
    assert recognition(architecture, label, **config).kind == kind


def test_sentence_transformers_modules_decide_for_a_generic_class() -> None:
    assert recognition("Qwen3ForCausalLM", None, "modules.json").kind == "text-embedding"
    assert recognition("BertForSequenceClassification", None, "modules.json").kind == "text-classification"
    assert recognition("Qwen3ForCausalLM", "text-generation", "modules.json").kind == "text-generation"


def test_generative_reranker_has_no_task_but_advice() -> None:
    found = recognition("Qwen3ForCausalLM", "text-ranking")
    assert (found.kind, found.task) == ("reranking", None)
    assert "task: text-generation" in found.advice


@pytest.mark.parametrize(
    ("paths", "kind", "what"),
    [
        (
            ("adapter_config.json", "adapter_model.safetensors"),
            "adapter",
            "is an adapter: it has adapter_config.json",
        ),
        (("model-Q4_K_M.gguf", "config.json"), "gguf", "is a model in GGUF: it has only *.gguf files"),
    ],
)
def test_adapters_and_gguf_are_refused_with_advice(paths: tuple[str, ...], kind: str, what: str) -> None:
    found = detect_task(listing(*paths, label="text-generation"), {})
    assert (found.kind, found.task) == (kind, None)
    with pytest.raises(Unresolvable, match=re.escape(what)) as refused:
        require_model(listing(*paths))
    assert refused.value.hint == found.advice


def test_model_with_an_additional_adapter_config_is_a_model() -> None:
    assert recognition("LlamaForCausalLM", None, "adapter_config.json").kind == "text-generation"


@pytest.mark.parametrize("config", [{}, {"architectures": "Llama"}, {"architectures": [7]}])
def test_model_without_information_is_unknown(config: dict[str, Any]) -> None:
    found = detect_task(listing(), config)
    assert (found.kind, found.task) == ("unknown", None)
    assert "task:" in found.advice


@pytest.mark.parametrize("part", PARTS)
def test_published_models_are_recognised(part: str) -> None:
    right, judged, wrong = score(part)
    assert not wrong
    assert right == judged >= 25


def test_left_out_models_are_chosen_by_hash() -> None:
    for name, model in read_models()["models"].items():
        is_third = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 3 == 0
        assert model["part"] == ("left-out" if is_third else "build"), name


def test_classes_of_transformers_are_detected_by_their_configuration() -> None:
    right, count, _ = class_score()
    assert count == read_classes()["first_look"]["judged"] >= 880
    assert right / count >= 0.98
