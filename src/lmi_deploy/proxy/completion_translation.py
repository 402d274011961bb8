"""OpenAI's requests as the handler of a deployment takes them, and its whole responses as OpenAI's. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from lmi_deploy.domain.inference_http import (
    ADAPTER_HEADER,
    Chunk,
    HttpRequest,
    InferenceRequest,
    ResponseHead,
)
from lmi_deploy.engines.inference_codec import Codec
from lmi_deploy.engines.openai_support import OpenAIApi
from lmi_deploy.engines.response_stream_decoder import error_text, read_json
from lmi_deploy.proxy.completion_stream import DecodedStream, OpenAIStream
from lmi_deploy.proxy.openai_error import OpenAIError, bad_request, parse_json, server_error
from lmi_deploy.proxy.stream_lines import (
    CompletionKind,
    ResponseIdentity,
    TokenUsage,
    openai_finish,
    usage_of,
)

ATTRIBUTES_HEADER: Final = "X-Amzn-SageMaker-Custom-Attributes"
_JSON_HEADERS: Final = (("Content-Type", "application/json"),)
_ENVELOPE: Final = frozenset({"model", "prompt", "stream", "stream_options", "user", "n", "best_of", "echo"})
"""Keys of a completion that are no parameters of generation."""
_ONE: Final = ("n", "best_of")


class StreamTranslation(Protocol):
    """Bytes of the deployment's stream become server-sent events. `failure`: why it broke, known after what `feed` or
    `close` returned last.
    """

    failure: OpenAIError | None

    @property
    def usage(self) -> TokenUsage | None: ...

    def feed(self, data: bytes) -> bytes: ...

    def close(self) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A deployment as the translation needs it. `identity` is of the response to one request."""

    identity: ResponseIdentity
    api: OpenAIApi
    codec: Codec
    adapter: str = ""

    @property
    def name(self) -> str:
        """As the client used it, adapter included."""
        return self.identity.model

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        if not self.adapter:
            return _JSON_HEADERS
        if self.codec.adapter_base:
            return (*_JSON_HEADERS, *self.codec.adapter_headers(self.adapter))
        # SageMaker passes on its own headers alone; DJLServing reads these attributes as headers.
        attributes = (ATTRIBUTES_HEADER, f"{ADAPTER_HEADER}={self.adapter}")
        return (*_JSON_HEADERS, (ADAPTER_HEADER, self.adapter), attributes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedRequest:
    """`whole` and `stream` are for its response, of which the request says whether it is streamed."""

    request: HttpRequest
    whole: Callable[[ResponseHead, bytes], tuple[bytes, TokenUsage | None]]
    stream: Callable[[ResponseHead], StreamTranslation]
    error_event: Callable[[OpenAIError], bytes]


def translate_completion(kind: CompletionKind, body: dict[str, Any], model: ServedModel) -> TranslatedRequest:
    """OpenAIError for what this deployment cannot be asked."""
    stream = read_flag(body, "stream")
    key = "messages" if kind == "chat" else "prompt"
    if key not in body:
        raise bad_request("required", key)
    if kind == "chat" and not model.api.chat:
        other = " or ".join(other_routes(model.api)) or "lmi invoke"
        raise bad_request(
            f"{model.name} is not a chat model: use {other}", "model", code="unsupported_request"
        )
    if kind == "text" and model.api.completions != "prompt":
        return _translate_inputs(body, model, stream=stream)
    sent = {name: value for name, value in body.items() if name != "model"}
    if model.codec.handler.template:
        sent["model"] = model.name
    encoded = json.dumps(sent, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return TranslatedRequest(
        request=HttpRequest(body=encoded, headers=model.headers, stream=stream),
        whole=lambda head, content: completion_body(kind, model.identity, content),
        stream=lambda head: OpenAIStream(kind, model.identity, head),
        error_event=error_event,
    )


def _translate_inputs(body: dict[str, Any], model: ServedModel, *, stream: bool) -> TranslatedRequest:
    """One text, in LMI's form."""
    if not model.api.completions:
        other = " or ".join(other_routes(model.api)) or "lmi invoke"
        raise bad_request(
            f"{model.name} does not generate text: use {other}", "model", code="unsupported_request"
        )
    prompt = body["prompt"]
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise bad_request("this deployment accepts one text per request", "prompt")
    for name in _ONE:
        if body.get(name) not in (None, 1):
            raise bad_request(f"this deployment generates 1 text per request, not {body[name]!r:.40}", name)
    parameters = {name: value for name, value in body.items() if name not in _ENVELOPE and value is not None}
    if "stop" in parameters:
        stop = parameters.pop("stop")
        parameters["stop_sequences"] = stop if isinstance(stop, list) else [stop]
    asked = InferenceRequest(prompt=prompt, chat=False, stream=stream, parameters=parameters)
    return TranslatedRequest(
        request=replace(model.codec.encode(asked), headers=model.headers, stream=stream),
        whole=lambda head, content: _decoded_body(model, asked, head, content),
        stream=lambda head: DecodedStream(model.identity, model.codec.decoder(head, asked)),
        error_event=error_event,
    )


def completion_body(
    kind: CompletionKind, identity: ResponseIdentity, content: bytes
) -> tuple[bytes, TokenUsage | None]:
    """A whole response; its choices are left as they are."""
    value = parse_json(content)
    if isinstance(value, dict) and isinstance(value.get("choices"), list):
        value["model"] = identity.model
        return _dump(value), usage_of(value)
    if error_text(value):
        raise server_error(502, content)
    if value is None:
        return _dump(_completion(kind, identity, Chunk(text=content.decode("utf-8", "replace")))), None
    chunk = read_json(value)
    return _dump(_completion(kind, identity, chunk)), TokenUsage(None, chunk.tokens) if chunk.tokens else None


def _decoded_body(
    model: ServedModel, asked: InferenceRequest, head: ResponseHead, content: bytes
) -> tuple[bytes, TokenUsage | None]:
    decoder = model.codec.decoder(head, asked)
    chunks = [*decoder.feed(content), *decoder.close()]
    failed = next((chunk.error for chunk in chunks if chunk.error), "")
    if failed:
        raise server_error(502, failed.encode())
    tokens = sum(chunk.tokens for chunk in chunks)
    finish = next((chunk.finish for chunk in reversed(chunks) if chunk.finish), "")
    total = Chunk(text="".join(chunk.text for chunk in chunks), tokens=tokens, finish=finish)
    return _dump(_completion("text", model.identity, total)), TokenUsage(None, tokens) if tokens else None


def _completion(kind: CompletionKind, identity: ResponseIdentity, chunk: Chunk) -> dict[str, Any]:
    chat = kind == "chat"
    said = {"message": {"role": "assistant", "content": chunk.text}} if chat else {"text": chunk.text}
    return {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{identity.key}",
        "object": "chat.completion" if chat else "text_completion",
        "created": identity.created,
        "model": identity.model,
        "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": openai_finish(chunk.finish)}],
    }


def other_routes(api: OpenAIApi) -> list[str]:
    """What a deployment can be asked."""
    routes = {
        "/v1/chat/completions": api.chat,
        "/v1/completions": bool(api.completions),
        "/v1/embeddings": bool(api.embeddings),
    }
    return [route for route, has in routes.items() if has]


def read_flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise bad_request(f"expected true or false, got {value!r:.80}", name)
    return bool(value)


def error_event(error: OpenAIError) -> bytes:
    """The last event of a stream that broke: OpenAI's clients raise it."""
    return b"data: " + error.body + b"\n\n"


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
