"""/v1/embeddings. Pure."""

from __future__ import annotations

import base64
import json
import sys
from array import array
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.engines.response_stream_decoder import error_text
from lmi_deploy.proxy.completion_translation import ServedModel, TranslatedRequest, error_event, other_routes
from lmi_deploy.proxy.openai_error import OpenAIError, bad_request, parse_json, server_error
from lmi_deploy.proxy.stream_lines import TokenUsage, usage_of

_OWN: Final = frozenset({"model", "input", "encoding_format", "user"})
_FORMATS: Final = ("float", "base64")


def translate_embeddings(body: dict[str, Any], model: ServedModel) -> TranslatedRequest:
    """OpenAIError for what this deployment cannot be asked. OpenAI's client requests base64 by default."""
    field = model.api.embeddings
    if not field:
        other = " or ".join(other_routes(model.api)) or "lmi invoke"
        raise bad_request(f"{model.name} does not embed: use {other}", "model", code="unsupported_request")
    texts = _texts(body)
    encoding = body.get("encoding_format") or "float"
    if encoding not in _FORMATS:
        raise bad_request(f"expected float or base64, got {encoding!r:.80}", "encoding_format")
    more = {name: value for name, value in body.items() if name not in _OWN and value is not None}
    sent: dict[str, Any] = {field: texts}
    if field == "input":
        sent |= {"model": model.name, **more}
    elif "dimensions" in more:
        raise bad_request("this deployment returns vectors of one length", "dimensions")
    elif more:
        sent["parameters"] = more
    encoded = json.dumps(sent, ensure_ascii=False).encode("utf-8", "replace")
    return TranslatedRequest(
        request=HttpRequest(body=encoded, headers=model.headers),
        whole=lambda head, content: embeddings_body(model.name, content, count=len(texts), encoding=encoding),
        stream=_not_streamed,
        error_event=error_event,
    )


def _texts(body: Mapping[str, Any]) -> list[str]:
    if "input" not in body:
        raise bad_request("required", "input")
    value = body["input"]
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        advice = "token ids depend on the tokenizer: send text (langchain-openai: check_embedding_ctx_length=False)"
        raise bad_request(f"expected a text or a list of texts, got {value!r:.80}; {advice}", "input")
    return texts


def embeddings_body(
    model: str, content: bytes, *, count: int, encoding: str
) -> tuple[bytes, TokenUsage | None]:
    """Of OpenAI's form, of LMI's list of vectors, or of one vector."""
    value = parse_json(content)
    if error_text(value):
        raise server_error(502, content)
    vectors = _vectors(value)
    if vectors is None or len(vectors) != count:
        found = "none" if vectors is None else str(len(vectors))
        raise OpenAIError(
            502, f"expected {count} vectors of the model, got {found}", code="bad_model_response"
        )
    usage = usage_of(value)
    data = [
        {"object": "embedding", "index": at, "embedding": _encoded(vector, encoding)}
        for at, vector in enumerate(vectors)
    ]
    body: dict[str, Any] = {"object": "list", "data": data, "model": model}
    if usage is not None and usage.prompt is not None:
        body["usage"] = {"prompt_tokens": usage.prompt, "total_tokens": usage.prompt}
    return json.dumps(body, separators=(",", ":")).encode(), usage


def _vectors(value: Any) -> list[list[float]] | None:
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        value = [each.get("embedding") if isinstance(each, dict) else None for each in value["data"]]
    if _is_vector(value):
        return [value]
    return value if isinstance(value, list) and value and all(map(_is_vector, value)) else None


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], (int, float))


def _encoded(vector: list[float], encoding: str) -> list[float] | str:
    """Base64 is of little-endian float32, as OpenAI's client reads it."""
    if encoding == "float":
        return vector
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode("ascii")


def _not_streamed(head: ResponseHead) -> NoReturn:
    raise AssertionError("embeddings are not streamed")
