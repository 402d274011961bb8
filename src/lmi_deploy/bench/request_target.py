"""What is measured: where requests go, and how they are encoded. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit, urlunsplit

from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.domain.inference_http import HttpRequest, InferenceRequest, ResponseHead
from lmi_deploy.domain.secret import Secret
from lmi_deploy.engines.engine import Decoder
from lmi_deploy.engines.inference_codec import Codec
from lmi_deploy.engines.response_stream_decoder import ErrorDecoder, read_json, read_line, response_decoder
from lmi_deploy.engines.template_handlers import messages
from lmi_deploy.errors import UsageRefused
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestForm:
    """What all requests of a run have in common. `exact`: the server must generate as many tokens as were asked for."""

    stream: bool = True
    output_tokens: int | None = None
    exact: bool = False
    chat: bool = True
    parameters: dict[str, Any] = field(default_factory=dict)

    def tokens_of(self, request: BenchRequest) -> int | None:
        return request.output_tokens or self.output_tokens

    def exact_tokens(self, request: BenchRequest) -> int | None:
        """The length that its answer must have; None if it may have any."""
        return self.tokens_of(request) if self.exact and request.body is None else None

    def parameters_of(self, request: BenchRequest) -> dict[str, Any]:
        tokens = self.tokens_of(request)
        length: dict[str, Any] = {"max_tokens": tokens} if tokens else {}
        if tokens and self.exact:
            length |= {"min_tokens": tokens, "ignore_eos": True}
        return {**length, **self.parameters}


class EncodedRequest(NamedTuple):
    """Encoded before the run: it takes no time between two requests. `source` is what it was made of."""

    http: HttpRequest
    source: BenchRequest
    asked_tokens: int | None = None


class RequestTarget(Protocol):
    """`endpoint` is where; AWS signs if it says so."""

    @property
    def endpoint(self) -> InferenceEndpoint: ...

    def encode(self, request: BenchRequest, form: RequestForm) -> HttpRequest:
        """UsageRefused for a request that it does not support."""

    def decoder(self, head: ResponseHead, *, stream: bool) -> Decoder: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentTarget:
    """A deployment of lmi: its engine knows how it is asked."""

    endpoint: InferenceEndpoint
    codec: Codec

    def encode(self, request: BenchRequest, form: RequestForm) -> HttpRequest:
        return self.codec.encode(_inference_request(request, form))

    def decoder(self, head: ResponseHead, *, stream: bool) -> Decoder:
        kind = head.header("content-type").lower()
        is_known = "jsonlines" in kind or "event-stream" in kind or ("json" in kind and not stream)
        if self.codec.engine.name == "custom" and is_known:
            # Of the user's own handler any text is an answer; one in the usual forms also counts its tokens.
            return response_decoder(head, full=read_json, line=read_line)
        return self.codec.decoder(head, InferenceRequest())


def _inference_request(request: BenchRequest, form: RequestForm) -> InferenceRequest:
    return InferenceRequest(
        prompt=request.prompt,
        images=request.images,
        body=request.body,
        content_type=request.content_type,
        chat=form.chat,
        stream=form.stream,
        parameters=form.parameters_of(request) if request.body is None else {},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAITarget:
    """Any server with OpenAI's API."""

    endpoint: InferenceEndpoint
    model: str
    key: Secret | None = None

    def encode(self, request: BenchRequest, form: RequestForm) -> HttpRequest:
        body = request.body if request.body is not None else self._body(request, form)
        headers = [("Content-Type", request.content_type)]
        if self.key:
            headers.append(("Authorization", f"Bearer {self.key.value}"))
        return HttpRequest(body=body, headers=tuple(headers), stream=form.stream)

    def _body(self, request: BenchRequest, form: RequestForm) -> bytes:
        asked: dict[str, Any] = (
            {"messages": messages(InferenceRequest(prompt=request.prompt, images=request.images))}
            if form.chat
            else {"prompt": request.prompt}
        )
        fields = {"model": self.model, **asked, **form.parameters_of(request)}
        if form.stream:
            # Servers count the tokens at the end only if they are asked to.
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        return json.dumps(fields, ensure_ascii=False).encode()

    def decoder(self, head: ResponseHead, *, stream: bool) -> Decoder:
        if "text/html" in head.header("content-type").lower():
            return ErrorDecoder(head)  # a web page is no answer: the address is that of something else
        return response_decoder(head, full=read_json, line=read_line)


def openai_target(url: str, model: str, key: Secret | None, *, chat: bool = True) -> OpenAITarget:
    """`url` is that of the server, of its /v1, or of the operation itself."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageRefused(
            f"--url {url}: not an http or https address", hint="for example http://127.0.0.1:8000/v1"
        )
    path = parts.path.rstrip("/")
    if path in ("", "/v1"):
        path = "/v1/chat/completions" if chat else "/v1/completions"
    whole = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    return OpenAITarget(endpoint=InferenceEndpoint(url=whole, stream_url=whole), model=model, key=key)
