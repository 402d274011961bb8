"""Write tools/class_tasks.json: the classes of transformers with the task that its own auto classes give them.

`python -m tools.generate_class_tasks` in an environment with transformers (torch is not needed). Each class stands
with what task detection reads of its default configuration. A class with several tasks says nothing, and is left out.
"""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).with_name("class_tasks.json")
_KINDS: Final = {
    "CAUSAL_LM": "text-generation",
    "IMAGE_TEXT_TO_TEXT": "vision-language",
    "MULTIMODAL_LM": "several",
    "SEQ_TO_SEQ_CAUSAL_LM": "text2text-generation",
    "SEQUENCE_CLASSIFICATION": "text-classification",
    "QUESTION_ANSWERING": "question-answering",
    "TEXT_ENCODING": "text-embedding",
}
_OTHER: Final = """
    TOKEN_CLASSIFICATION MASKED_LM MULTIPLE_CHOICE IMAGE_CLASSIFICATION OBJECT_DETECTION ZERO_SHOT_OBJECT_DETECTION CTC
    AUDIO_CLASSIFICATION TEXT_TO_WAVEFORM TEXT_TO_SPECTROGRAM MASK_GENERATION DEPTH_ESTIMATION SPEECH_SEQ_2_SEQ
    SEMANTIC_SEGMENTATION VIDEO_CLASSIFICATION ZERO_SHOT_IMAGE_CLASSIFICATION TIME_SERIES_PREDICTION
    NEXT_SENTENCE_PREDICTION DOCUMENT_QUESTION_ANSWERING VISUAL_QUESTION_ANSWERING KEYPOINT_DETECTION IMAGE_TO_IMAGE
    UNIVERSAL_SEGMENTATION
"""
_SEES: Final = ("vision_config", "visual", "vision_tower", "mm_vision_tower", "img_processor")
_HEARS: Final = ("audio_config", "audio_processor", "encoder_config")


def main() -> None:
    import transformers  # type: ignore[import-not-found, unused-ignore]
    from huggingface_hub.errors import StrictDataclassError
    from transformers import CONFIG_MAPPING

    rows: list[list[Any]] = []
    path = Path(transformers.__file__).parent / "models" / "auto" / "modeling_auto.py"
    for (model_type, name), kinds in sorted(_tasks(path).items()):
        if len(kinds) > 1 or model_type not in CONFIG_MAPPING:
            continue
        try:
            config = _read_fields(CONFIG_MAPPING[model_type]().to_dict(), model_type)
        except (TypeError, ValueError, StrictDataclassError):
            continue  # it has no default configuration
        kind = _kind(next(iter(kinds)), config)
        if kind:
            rows.append([kind, name, config])
    head = {
        "source": f"transformers {transformers.__version__} (PyPI), models/auto/modeling_auto.py",
        # Counted before any rule was changed because of them.
        "first_look": json.loads(TARGET.read_text())["first_look"] if TARGET.exists() else None,
    }
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    TARGET.write_text(json.dumps(head)[:-1] + ',\n"classes": [\n' + lines + "\n]}\n", encoding="ascii")


def _tasks(path: Path) -> dict[tuple[str, str], set[str]]:
    """The tasks of each model_type and class."""
    kinds = {f"MODEL_FOR_{task}_MAPPING_NAMES": kind for task, kind in _KINDS.items()}
    kinds |= {f"MODEL_FOR_{task}_MAPPING_NAMES": "other" for task in _OTHER.split()}
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=table)], value=ast.Call(args=[ast.List(elts=items)])) if (
                table in kinds
            ):
                for model_type, name in _pairs(items):
                    found[model_type, name].add(kinds[table])
            case _:
                pass
    return found


def _pairs(items: list[ast.expr]) -> Iterator[tuple[str, str]]:
    for item in items:
        if not isinstance(item, ast.Starred):
            model_type, names = ast.literal_eval(item)
            yield from ((model_type, name) for name in ([names] if isinstance(names, str) else names))


def _read_fields(config: Mapping[str, Any], model_type: str) -> dict[str, Any]:
    """What task detection reads; a part that is there is a table with one field."""
    parts = {key: {"hidden_size": 1} for key in (*_SEES, *_HEARS) if config.get(key)}
    vocabulary = {"vocab_size": 1} if "vocab_size" in config else {}
    both = {"is_encoder_decoder": True} if config.get("is_encoder_decoder") is True else {}
    return {"model_type": config.get("model_type", model_type), **both, **vocabulary, **parts}


def _kind(kind: str, config: Mapping[str, Any]) -> str:
    """Empty where the default configuration is that of a larger model which contains the class, or the table mixes
    tasks."""
    has_parts = any(key in config for key in (*_SEES, "audio_config", "audio_processor"))
    if kind == "several" or (kind in ("text-generation", "text-embedding") and has_parts):
        return ""
    # The table for texts from texts has models that hear, too.
    return "audio-language" if kind == "text2text-generation" and has_parts else kind


if __name__ == "__main__":
    main()
