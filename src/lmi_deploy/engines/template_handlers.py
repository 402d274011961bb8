"""The requests of lmi's own handlers (the folders of `templates/`), and how their responses are read."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final

from lmi_deploy.catalog.options import IMAGE_TEMPLATE
from lmi_deploy.domain.inference_http import Chunk, ImageFile, InferenceRequest, ResponseHead
from lmi_deploy.engines.engine import Decoder
from lmi_deploy.engines.response_stream_decoder import read_json, read_line, response_decoder
from lmi_deploy.errors import UsageRefused

NAMES: Final = (
    *("text-generation", "text2text-generation", "text-embedding", "text-classification"),
    *("question-answering", IMAGE_TEMPLATE),
)
_PROBE_PNG: Final = (
    b"iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAT0lEQVR42u3PQQkAAAgEsEty/aMYywi+hcEKLNO+FgEBAQEB"
    b"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQGBywLKp0DxvxLbjwAAAABJRU5ErkJggg=="
)
"""In base64: 64 by 64 pixels, all red."""
_LMI_NAMES: Final = {"max_new_tokens": "max_tokens", "stop_sequences": "stop"}
_OPENAI_NAMES: Final = {"max_tokens": "max_new_tokens"}


def body(request: InferenceRequest, template: str | None) -> dict[str, Any]:
    """Raises UsageRefused for a request that this handler does not support."""
    if template == "text-generation" and request.images:
        raise UsageRefused(
            "this deployment takes no images: its handler text-generation reads text only",
            hint="deploy a vision model, with engine: vllm or accelerate",
        )
    return _BODIES.get(template or "", _generation)(request)


def decoder(head: ResponseHead, prompt: InferenceRequest, template: str | None) -> Decoder:
    return response_decoder(head, full=_WHOLES.get(template or "", read_json), line=read_line)


def _generation(request: InferenceRequest) -> dict[str, Any]:
    """OpenAI's forms, which stream and count tokens."""
    chat = request.chat or bool(request.system)
    requested: dict[str, Any] = {"messages": messages(request)} if chat else {"prompt": request.prompt}
    requested |= {_LMI_NAMES.get(key, key): value for key, value in request.parameters.items()}
    if request.stream:
        requested |= {"stream": True, "stream_options": {"include_usage": True}}
    return requested


def messages(request: InferenceRequest) -> list[dict[str, Any]]:
    """OpenAI's messages: system prompt, earlier turns, then the prompt with its images."""
    turns = [
        message
        for turn in request.history
        for message in (
            {"role": "user", "content": turn.prompt},
            {"role": "assistant", "content": turn.answer},
        )
    ]
    content: str | list[dict[str, Any]] = request.prompt
    if request.images:
        urls = [{"type": "image_url", "image_url": {"url": image.as_url}} for image in request.images]
        content = [{"type": "text", "text": request.prompt}, *urls]
    system = [{"role": "system", "content": request.system}] if request.system else []
    return [*system, *turns, {"role": "user", "content": content}]


def _text2text(request: InferenceRequest) -> dict[str, Any]:
    streamed = {"stream": True} if request.stream else {}
    return {**_inputs(request), **streamed}


def without_conversation(request: InferenceRequest) -> dict[str, Any]:
    """The parameters by transformers' names. UsageRefused for a system prompt, earlier turns and images, which only a
    conversation has.
    """
    if request.system:
        raise UsageRefused(
            "this deployment has no system prompt: its model is not a chat model",
            hint="put the instructions into the text",
        )
    if request.history or request.images:
        what = "images" if request.images else "conversations"
        raise UsageRefused(
            f"this deployment takes no {what}: its model is not a chat model",
            hint='send a single text: lmi invoke NAME "your text"',
        )
    return {_OPENAI_NAMES.get(key, key): value for key, value in request.parameters.items()}


def _inputs(request: InferenceRequest) -> dict[str, Any]:
    """LMI's form."""
    requested = without_conversation(request)
    return {"inputs": request.prompt, **({"parameters": requested} if requested else {})}


def _question(request: InferenceRequest) -> dict[str, Any]:
    raise needs_whole_body("question-answering")


def needs_whole_body(task: str | None) -> UsageRefused:
    return UsageRefused(
        f"task {task or 'unknown'} needs more than a prompt",
        hint='send a whole body: lmi invoke NAME --body \'{"inputs": {"question": "...", "context": "..."}}\'',
    )


def _answers(value: Any) -> Chunk:
    """A line an answer, with its score."""
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) and "answer" in each and "score" in each for each in found):
        return Chunk(text=json.dumps(value, ensure_ascii=False))
    return Chunk(text="\n".join(f"{each['answer']} ({each['score']:.4f})" for each in found))


def question_probe() -> InferenceRequest:
    return InferenceRequest(body=b'{"inputs": {"question": "Who says OK?", "context": "lmi says OK."}}')


def image_probe() -> InferenceRequest:
    """With an image: a worker without its packages for images answers text alone."""
    image = ImageFile(media_type="image/png", data=b64decode(_PROBE_PNG))
    return InferenceRequest(
        prompt="What color is this?", images=(image,), parameters={"max_tokens": 8, "temperature": 0}
    )


def _labels(value: Any) -> Chunk:
    """A line a label, best first; several texts are apart by an empty line."""
    lists = value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
    if not all(_scored(each) for each in lists):
        return Chunk(text=json.dumps(value, ensure_ascii=False))
    return Chunk(
        text="\n\n".join("\n".join(f"{each['label']} {each['score']:.4f}" for each in one) for one in lists)
    )


def _scored(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and "label" in each and isinstance(each.get("score"), float) for each in value
    )


_BODIES: Final[Mapping[str, Callable[[InferenceRequest], dict[str, Any]]]] = {
    "text2text-generation": _text2text,
    "text-embedding": _inputs,
    "text-classification": _inputs,
    "question-answering": _question,
}
_WHOLES: Final[Mapping[str, Callable[[Any], Chunk]]] = {
    "text-classification": _labels,
    "question-answering": _answers,
}
