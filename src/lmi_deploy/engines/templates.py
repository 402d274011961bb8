"""What our own handlers (the folders of `templates/`) are asked, and how their answers read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from lmi_deploy.domain.inference_http import Head, Piece, Question
from lmi_deploy.engines.engine import Decoder
from lmi_deploy.engines.response_decoding import answer, read_line, read_whole
from lmi_deploy.errors import UsageRefused

NAMES: Final = ("text-generation", "text2text-generation", "text-embedding", "text-classification")
_LMI_NAMES: Final = {"max_new_tokens": "max_tokens", "stop_sequences": "stop"}
_OPENAI_NAMES: Final = {"max_tokens": "max_new_tokens"}


def body(question: Question, template: str | None) -> dict[str, Any]:
    """Raises UsageRefused for what this handler cannot be asked."""
    return _BODIES.get(template or "", _generation)(question)


def decoder(head: Head, question: Question, template: str | None) -> Decoder:
    return answer(head, whole=_WHOLES.get(template or "", read_whole), line=read_line)


def _generation(question: Question) -> dict[str, Any]:
    """OpenAI's forms, which stream and count tokens."""
    system = [{"role": "system", "content": question.system}] if question.system else []
    chat = question.chat or bool(system)
    asked: dict[str, Any] = (
        {"messages": [*system, {"role": "user", "content": question.prompt}]}
        if chat
        else {"prompt": question.prompt}
    )
    asked |= {_LMI_NAMES.get(key, key): value for key, value in question.parameters.items()}
    if question.stream:
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
    return asked


def _text2text(question: Question) -> dict[str, Any]:
    streamed = {"stream": True} if question.stream else {}
    return {**_inputs(question), **streamed}


def _inputs(question: Question) -> dict[str, Any]:
    """LMI's form. What is no conversation has no system prompt."""
    if question.system:
        raise UsageRefused(
            "this deployment cannot take a system prompt: its model holds no conversation",
            hint="put what it should know into the text",
        )
    asked = {_OPENAI_NAMES.get(key, key): value for key, value in question.parameters.items()}
    return {"inputs": question.prompt, **({"parameters": asked} if asked else {})}


def _labels(value: Any) -> Piece:
    """A line a label, best first; several texts are apart by an empty line."""
    lists = value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
    if not all(_scored(each) for each in lists):
        return Piece(text=json.dumps(value, ensure_ascii=False))
    return Piece(
        text="\n\n".join("\n".join(f"{each['label']} {each['score']:.4f}" for each in one) for one in lists)
    )


def _scored(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and "label" in each and isinstance(each.get("score"), float) for each in value
    )


_BODIES: Final[Mapping[str, Callable[[Question], dict[str, Any]]]] = {
    "text2text-generation": _text2text,
    "text-embedding": _inputs,
    "text-classification": _inputs,
}
_WHOLES: Final[Mapping[str, Callable[[Any], Piece]]] = {"text-classification": _labels}
