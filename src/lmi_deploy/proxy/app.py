"""The ASGI application: routes, access, and the way of a request to its deployment and back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from lmi_deploy.errors import LmiError
from lmi_deploy.proxy.access_control import ProxyAccess
from lmi_deploy.proxy.asgi_request import CLIENT_LEFT, KEY_ACCEPTED, ProxyReply, Receive, Send
from lmi_deploy.proxy.completion_translation import ServedModel, TranslatedRequest, translate_completion
from lmi_deploy.proxy.concurrency_limit import RequestLimiter
from lmi_deploy.proxy.deployments import Deployments, ServedDeployment
from lmi_deploy.proxy.embeddings import translate_embeddings
from lmi_deploy.proxy.metrics import CONTENT_TYPE, ProxyMetrics
from lmi_deploy.proxy.openai_error import OpenAIError, bad_request, of_lmi_error, parse_json, unknown_model
from lmi_deploy.proxy.responses_api import translate_response
from lmi_deploy.proxy.upstream import Upstream, UpstreamResponse

MAX_BODY: Final = 67_108_864
"""Bytes of a request: as many as DJLServing takes unless max_request_size says otherwise."""
Translate = Callable[[dict[str, Any], ServedModel], TranslatedRequest]
_TRANSLATIONS: Final[Mapping[str, Translate]] = {
    "/v1/chat/completions": partial(translate_completion, "chat"),
    "/v1/completions": partial(translate_completion, "text"),
    "/v1/embeddings": translate_embeddings,
    "/v1/responses": translate_response,
}
_MODELS: Final = "/v1/models"
_SHOWN: Final = (_MODELS, "/health", "/metrics")
_OPEN: Final = ("/health",)
"""Routes that need no key."""


class ProxyApp:
    """`reading` limits the requests whose body is in memory before their deployment is known; `report` gets a line for
    each failure that is not the client's mistake.
    """

    def __init__(
        self,
        *,
        deployments: Deployments,
        upstream: Upstream,
        access: ProxyAccess,
        metrics: ProxyMetrics,
        reading: RequestLimiter,
        report: Callable[[str], None],
    ) -> None:
        self._deployments = deployments
        self._upstream = upstream
        self._access = access
        self._metrics = metrics
        self._reading = reading
        self._report = report
        self._created = int(time.time())

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = _Request(scope, ProxyReply(receive, send))
        reply = request.reply
        try:
            await self._route(request)
        except OpenAIError as error:
            await self._fail(request, error)
        except LmiError as error:
            await self._fail(request, of_lmi_error(error))
        except asyncio.CancelledError:
            if not reply.client_left:
                await self._fail(
                    request, OpenAIError(503, "the proxy is shutting down", code="shutting_down")
                )
            reply.status = CLIENT_LEFT if reply.client_left else reply.status
        except Exception as bug:  # noqa: BLE001 (the boundary: any other exception is a bug, and the client gets an answer)
            await self._fail(
                request, OpenAIError(500, f"a bug of lmi proxy: {type(bug).__name__}: {bug}", code="bug")
            )
        finally:
            if request.route in _TRANSLATIONS:
                seconds = time.perf_counter() - request.started
                self._metrics.ended(request.model, request.route, reply.status, seconds)

    async def _fail(self, request: _Request, error: OpenAIError) -> None:
        """As the response, or as the last event of one that has started."""
        reply = request.reply
        if error.status >= 500:
            self._report(f"{error.status} {request.route} {request.model}: {error.message}")
        if not reply.has_started:
            await reply.error(error)
        elif not reply.is_complete:
            reply.status = error.status
            await reply.events(request.error_event(error), more=False)

    async def _route(self, request: _Request) -> None:
        self._access.check_host(request.headers)
        if request.route not in _OPEN:
            self._access.check_key(request.headers)
            request.key_accepted()
        translate = _TRANSLATIONS.get(request.route)
        if translate is not None:
            _require_method(request, "POST")
            await self._ask(request, translate)
        elif request.route in _SHOWN or request.route.startswith(f"{_MODELS}/"):
            _require_method(request, "GET", "HEAD")
            await self._show(request)
        else:
            known = ", ".join((*_TRANSLATIONS, *_SHOWN))
            raise OpenAIError(404, f"{request.path}: no such route; there are {known}", code="unknown_url")

    async def _show(self, request: _Request) -> None:
        route, reply = request.route, request.reply
        if route == "/health":
            await reply.whole(200, b'{"status": "ok"}')
        elif route == "/metrics":
            await reply.whole(200, self._metrics.text(), kind=CONTENT_TYPE.encode())
        elif route == _MODELS:
            models = [self._model(name) for name in await self._deployments.models()]
            await reply.whole(200, json.dumps({"object": "list", "data": models}).encode())
        else:
            name, names = route.removeprefix(f"{_MODELS}/"), await self._deployments.models()
            # An adapter that is not listed may exist: SageMaker does not say.
            if not {name, name.partition(":")[0]} & set(names):
                raise unknown_model(name, names)
            await reply.whole(200, json.dumps(self._model(name)).encode())

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "lmi"}

    async def _ask(self, request: _Request, translate: Translate) -> None:
        await self._reading.acquire()
        try:
            deployment, translated = await self._translated(request, translate)
        finally:
            self._reading.release()
        request.reply.watch_client()
        await deployment.limiter.acquire()
        try:
            await self._exchange(request, deployment, translated)
        finally:
            deployment.limiter.release()

    async def _translated(
        self, request: _Request, translate: Translate
    ) -> tuple[ServedDeployment, TranslatedRequest]:
        content = await request.reply.read_body(MAX_BODY)
        body = parse_json(content)
        if not isinstance(body, dict):
            problem = "is not JSON" if body is None else "is JSON, but not an object"
            raise bad_request(f"the body of the request {problem}: send a JSON object")
        deployment, adapter = await self._deployments.find(body.get("model"))
        request.model = deployment.name
        translated = translate(body, deployment.model(adapter, request.reply.key))
        request.error_event = translated.error_event
        if adapter and translated.request.stream and not deployment.streams_adapters:
            message = f"the server of {deployment.name} ignores the adapter {adapter} in a stream"
            raise bad_request(f"{message}: omit `stream`", "stream")
        limit, size = deployment.endpoint.max_bytes, len(translated.request.body)
        if limit is not None and size > limit:
            message = f"the request has {size:,} bytes; {deployment.name} accepts at most {limit:,}"
            raise OpenAIError(413, message, code="request_too_large")
        return deployment, translated

    async def _exchange(
        self, request: _Request, deployment: ServedDeployment, translated: TranslatedRequest
    ) -> None:
        response = await self._upstream.send(deployment, translated.request)
        try:
            if translated.request.stream:
                await self._stream(request, response, translated)
                return
            content, usage = translated.whole(response.head, await response.read())
        finally:
            response.abort()  # of no effect on one that is complete
        if usage is not None:
            self._metrics.tokens(deployment.name, usage)
        await request.reply.whole(200, content)

    async def _stream(
        self, request: _Request, response: UpstreamResponse, translated: TranslatedRequest
    ) -> None:
        translation, reply = translated.stream(response.head), request.reply
        is_open, is_first = True, True
        while is_open:
            piece = await response.next_piece()
            is_open = bool(piece)
            events = translation.feed(piece) if is_open else translation.close()
            has_failed = translation.failure is not None
            if events:
                await reply.events(events, more=is_open or has_failed)
                if is_first:  # counted once it is sent: nothing delays the first token
                    self._metrics.first_token(request.model, time.perf_counter() - request.started)
                    is_first = False
            if translation.failure is not None:
                raise translation.failure
        if translation.usage is not None:
            self._metrics.tokens(request.model, translation.usage)


class _Request:
    """`route` is the path with `/v1`, which clients may leave out."""

    def __init__(self, scope: Mapping[str, Any], reply: ProxyReply) -> None:
        self.reply = reply
        self.started = time.perf_counter()
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.route = self.path if len(self.path) == 1 else self.path.rstrip("/")
        if f"/v1{self.route}" in _TRANSLATIONS or self.route.startswith("/models"):
            self.route = f"/v1{self.route}"
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self.key_accepted: Callable[[], None] = scope["extensions"][KEY_ACCEPTED]
        self.model = ""
        self.error_event: Callable[[OpenAIError], bytes] = _no_event


def _no_event(error: OpenAIError) -> bytes:
    raise AssertionError(f"no response has started: {error}")


def _require_method(request: _Request, *methods: str) -> None:
    if request.method not in methods:
        message = f"{request.path}: use {methods[0]}, not {request.method}"
        raise OpenAIError(405, message, code="method_not_allowed")
