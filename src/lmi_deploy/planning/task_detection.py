"""What a model does: the Hub's label, then config.json, then modules.json, in this order of trust."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from lmi_deploy.domain.djl_serving import MODEL_PY
from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.domain.recipe_keys import Task
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.file_selection import WEIGHTS

ModelKind = Literal[
    "text-generation",
    "vision-language",
    "audio-language",
    "text2text-generation",
    "text-embedding",
    "reranking",
    "text-classification",
    "question-answering",
    "adapter",
    "gguf",
    "other",
    "unknown",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TASKS: Final[Mapping[ModelKind, Task]] = {
    "text-generation": "text-generation",
    "vision-language": "text-generation",
    "audio-language": "text-generation",
    "text2text-generation": "text2text-generation",
    "text-embedding": "text-embedding",
    "reranking": "text-classification",
    "text-classification": "text-classification",
    "question-answering": "question-answering",
}
"""The recipe's task. A reranker with a classifier's head scores pairs of texts."""
WRITERS: Final[tuple[ModelKind, ...]] = (
    "text-generation",
    "vision-language",
    "audio-language",
    "text2text-generation",
)
_LABELS: Final[Mapping[str, ModelKind]] = {
    "text-generation": "text-generation",
    "text2text-generation": "text2text-generation",
    "summarization": "text2text-generation",
    "translation": "text2text-generation",
    "image-text-to-text": "vision-language",
    "video-text-to-text": "vision-language",
    "visual-question-answering": "vision-language",
    "any-to-any": "vision-language",
    "audio-text-to-text": "audio-language",
    "feature-extraction": "text-embedding",
    "sentence-similarity": "text-embedding",
    "text-embedding": "text-embedding",
    "text-ranking": "reranking",
    "text-classification": "text-classification",
    "zero-shot-classification": "text-classification",
    "question-answering": "question-answering",
}
"""Labels of the Hub (huggingface.co/tasks, 2026-11-22) that lmi has a request for."""
_OTHER_LABELS: Final = _words(
    """
    automatic-speech-recognition audio-classification audio-to-audio depth-estimation document-question-answering
    fill-mask image-classification image-feature-extraction image-segmentation image-to-image image-to-text image-
    to-video mask-generation object-detection reinforcement-learning robotics table-question-answering tabular-
    classification tabular-regression text-to-audio text-to-image text-to-speech text-to-video time-series-
    forecasting token-classification unconditional-image-generation visual-document-retrieval voice-activity-
    detection zero-shot-image-classification zero-shot-object-detection
    """
)
_ENCODER_DECODERS: Final = _words(
    """
    t5 mt5 umt5 longt5 switch_transformers bart mbart marian pegasus pegasus_x bigbird_pegasus m2m_100 nllb-moe
    fsmt led blenderbot blenderbot-small plbart prophetnet xlm-prophetnet mvp t5gemma encoder-decoder
    """
)
"""Values of model_type whose ForConditionalGeneration reads a text and writes another (transformers 5.x)."""
_SPEECH: Final = _words(
    """
    whisper wav2vec2 wav2vec2-bert wav2vec2-conformer hubert wavlm speech_to_text speecht5 moonshine sew sew-d
    moonshine_streaming kyutai_speech_to_text seamless_m4t seamless_m4t_v2 bark musicgen musicgen_melody data2vec-audio
    unispeech unispeech-sat canary cohere_asr csm dia gradium_phonon_tts higgs_audio_v2 pocket_tts pop2piano vibevoice
    vits
    """
)
"""Values of model_type that read or write sound only."""
_PAGES: Final = _words("layoutlm layoutlmv2 layoutlmv3 vilt")
"""Values of model_type whose questions are about an image, or about words with their places on a page."""
_SEES: Final = ("vision_config", "visual", "vision_tower", "mm_vision_tower", "img_processor")
_HEARS: Final = ("audio_config", "audio_processor", "encoder_config")
_SUFFIXES: Final[tuple[tuple[str, ModelKind], ...]] = (
    ("ForSequenceClassification", "text-classification"),
    ("ForQuestionAnswering", "question-answering"),
    ("ForQuestionAnsweringSimple", "question-answering"),
    ("MTModel", "text2text-generation"),
    ("ForTextToText", "text2text-generation"),
    ("ForCausalLM", "text-generation"),
    ("LMHeadModel", "text-generation"),
    ("ModelWithLMHead", "text-generation"),
    ("ForVisionText2Text", "vision-language"),
    ("ForConditionalGeneration", "vision-language"),
)
"""Ends of a class name; a ForConditionalGeneration that is no encoder-decoder reads images as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedTask:
    """`evidence` says in a few words why; `advice` what to do with a model that lmi has no request for."""

    kind: ModelKind
    evidence: str
    advice: str = ""
    servable: bool = True

    @property
    def unusual(self) -> str:
        """What the files are, if no engine loads them as a model."""
        return f"is {'an adapter' if self.kind == 'adapter' else 'a model in GGUF'}: {self.evidence}"

    @property
    def task(self) -> Task | None:
        return TASKS.get(self.kind) if self.servable else None


def architecture_of(config: Mapping[str, Any]) -> str:
    """The first architecture in config.json, or an empty string; an untrusted file may contain any value there."""
    named = config.get("architectures")
    first = named[0] if isinstance(named, list) and named else ""
    return first if isinstance(first, str) else ""


def detect_task(listing: ModelListing, config: Mapping[str, Any]) -> DetectedTask:
    """Looks at names of files, never into them."""
    paths = {entry.path for entry in listing.files}
    return unusual_files(paths) or _by_label(listing.pipeline_tag, config) or _by_files(paths, config)


def refuse_unusual(listing: ModelListing) -> None:
    """Unresolvable for an adapter and for GGUF files, by name."""
    if (found := unusual_files({entry.path for entry in listing.files})) is not None:
        raise Unresolvable(f"{listing.model_id} {found.unusual}", hint=found.advice)


def require_model(listing: ModelListing) -> None:
    """Unresolvable if no file can be a model's weights, whatever the recipe selects."""
    refuse_unusual(listing)
    if not any(entry.path.endswith(WEIGHTS) for entry in listing.files):
        content = "no weights file" if listing.files else "it is empty: no weights file"
        own_code = any(entry.path == MODEL_PY for entry in listing.files)
        folder = shlex.quote(listing.model_id) if listing.model_id.startswith("/") else "FOLDER"
        raise Unresolvable(
            f"{listing.model_id}: {content} (*{', *'.join(WEIGHTS)})",
            hint=f"`lmi import {folder}` writes the recipe of a model.py of your own, with engine: custom"
            if own_code
            else "name a folder with config.json, *.safetensors and the tokenizer's files; `hf download NAME "
            "--local-dir DIR` creates one",
        )


def unusual_files(paths: Collection[str]) -> DetectedTask | None:
    """An adapter, or a GGUF file: no engine loads them as a model."""
    if "adapter_config.json" in paths and "config.json" not in paths:
        return DetectedTask(
            kind="adapter",
            evidence="it has adapter_config.json, but no config.json",
            advice="write a recipe for its base model, and name this one there: adapters: {NAME: ID} (`lmi docs "
            "serve-adapters`)",
            servable=False,
        )
    if any(path.endswith(".gguf") for path in paths) and not any(path.endswith(WEIGHTS) for path in paths):
        return DetectedTask(
            kind="gguf",
            evidence="it has only *.gguf files",
            advice="use the original repository with *.safetensors, which the model card names: no engine of LMI "
            "reads GGUF, the format of llama.cpp",
            servable=False,
        )
    return None


def _by_label(label: str | None, config: Mapping[str, Any]) -> DetectedTask | None:
    """The Hub's label names the task, config.json which form of it; None for a label that decides nothing."""
    evidence = f"the Hub's label {label}"
    if label in _OTHER_LABELS:
        return _other(evidence)
    if (named := _model_type(config)) in _SPEECH and not architecture_of(config).endswith("ForTextToText"):
        return _other(f"model_type {named}")
    kind = _LABELS.get(label or "")
    if kind is None:
        return None
    form = _by_class(config)
    if kind in WRITERS and form in WRITERS:
        return DetectedTask(kind=form, evidence=f"{evidence}, class {architecture_of(config)}")
    if kind == "text-classification" and form == "reranking":
        return DetectedTask(kind=form, evidence=f"{evidence}, one label")
    if kind == "reranking" and form not in ("text-classification", "reranking"):
        return _generative_reranker(evidence)
    return DetectedTask(kind=kind, evidence=evidence)


def _by_files(paths: Collection[str], config: Mapping[str, Any]) -> DetectedTask:
    architecture = architecture_of(config)
    kind = _by_class(config)
    if "modules.json" in paths and kind in (None, "text-generation", "text-embedding"):
        # ForCausalLM does not say what a model was trained for: the modules of Sentence Transformers do.
        return DetectedTask(kind="text-embedding", evidence="modules.json, of Sentence Transformers")
    if kind is not None:
        return DetectedTask(kind=kind, evidence=f"class {architecture}")
    if architecture:
        return _other(f"class {architecture}")
    if "model_index.json" in paths:
        return _other("model_index.json, of Diffusers")
    return DetectedTask(
        kind="unknown",
        evidence="neither the Hub nor config.json names it",
        advice="if you know the task, set task: in the recipe",
    )


def _by_class(config: Mapping[str, Any]) -> ModelKind | None:
    """By the first architecture; None for one that lmi has no request for."""
    architecture = architecture_of(config)
    kind = next((kind for suffix, kind in _SUFFIXES if architecture.endswith(suffix)), None)
    if kind == "text-classification" and _one_label(config):
        return "reranking"
    if kind == "question-answering" and (_has_part(config, _SEES) or _model_type(config) in _PAGES):
        return None
    if architecture == "EncoderDecoderModel":
        return "text2text-generation"
    if kind in ("text-generation", "vision-language"):
        return _writer(kind, config)
    if kind is None and _is_text_encoder(architecture, config):
        return "text-embedding"
    return kind


def _writer(kind: ModelKind, config: Mapping[str, Any]) -> ModelKind:
    sees = _has_part(config, _SEES)
    # The encoder_config of a ForCausalLM is one of bytes (BLT).
    hears = _has_part(config, _HEARS if kind == "vision-language" else _HEARS[:2])
    named = _model_type(config)
    both = named in _ENCODER_DECODERS or (config.get("is_encoder_decoder") is True and not sees and not hears)
    if kind == "vision-language" and both:
        return "text2text-generation"
    if sees:
        return "vision-language"
    if hears or "audio" in named or "speech" in named:
        return "audio-language"
    return kind


def _model_type(config: Mapping[str, Any]) -> str:
    """As config.json has it, else the beginning of the class's name."""
    named = config.get("model_type")
    return named if isinstance(named, str) else architecture_of(config).partition("For")[0].lower()


def _one_label(config: Mapping[str, Any]) -> bool:
    labels = config.get("id2label")
    return config.get("num_labels") == 1 or (isinstance(labels, Mapping) and len(labels) == 1)


def _is_text_encoder(architecture: str, config: Mapping[str, Any]) -> bool:
    """A model without a head, whose result is its hidden states; one of images has no vocabulary of its own."""
    has_parts = _has_part(config, (*_SEES, *_HEARS))
    return architecture.endswith("Model") and "vocab_size" in config and not has_parts


def _has_part(config: Mapping[str, Any], keys: Collection[str]) -> bool:
    return any(config.get(key) for key in keys)


def _generative_reranker(evidence: str) -> DetectedTask:
    return DetectedTask(
        kind="reranking",
        evidence=evidence,
        advice="this model scores by generating yes or no: deploy it with task: text-generation and the prompt of "
        "its model card, or use its variant for sequence classification",
        servable=False,
    )


def _other(evidence: str) -> DetectedTask:
    return DetectedTask(
        kind="other",
        evidence=evidence,
        advice="lmi does not support this task: write your own handler (handler.file) with engine: custom",
        servable=False,
    )
