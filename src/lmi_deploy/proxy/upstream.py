"""One request to a deployment and its response, the same wherever it runs; failures become OpenAI's errors."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.errors import LmiError
from lmi_deploy.inference_client.client import HttpAddress, InferenceClient
from lmi_deploy.inference_client.connection import InferenceExchange
from lmi_deploy.inference_client.eventstream import DamagedStream, EventStreamDecoder, StreamMessage
from lmi_deploy.inference_client.transfer_errors import ConnectFailed, TimedOut, TransferError
from lmi_deploy.proxy.deployments import Deployments, ServedDeployment
from lmi_deploy.proxy.openai_error import OpenAIError, aws_error, of_lmi_error, parse_json, server_error

_EVENT_STREAM: Final = "application/vnd.amazon.eventstream"
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_NOT_READY_DELAYS: Final = (0.5, 1.0, 2.0, 4.0)
"""Seconds before a request is sent again to a model that is not ready."""
_LIST_TIMEOUT: Final = 5.0


class UpstreamResponse:
    """A success: its head is here, its body comes in pieces."""

    def __init__(self, exchange: InferenceExchange) -> None:
        self._exchange = exchange
        kind = exchange.header("content-type")
        self._events = EventStreamDecoder() if kind.startswith(_EVENT_STREAM) else None
        if self._events is not None:
            kind = exchange.header("x-amzn-sagemaker-content-type")
        self.head = ResponseHead(status=exchange.status, reason="", headers=(("content-type", kind),))

    async def read(self) -> bytes:
        pieces = []
        while piece := await self.next_piece():
            pieces.append(piece)
        return b"".join(pieces)

    async def next_piece(self) -> bytes:
        """Empty at the end. OpenAIError if the stream breaks."""
        while True:
            try:
                parts = await self._exchange.read_parts()
                data = parts[0].data if len(parts) == 1 else b"".join(part.data for part in parts)
                if self._events is None:
                    return data
                if not data:
                    self._events.close()
                    return b""
                payload = b"".join(_payload(message) for message in self._events.feed(data))
            except TimedOut as exc:
                raise OpenAIError(504, f"the model's stream stopped: {exc}", code="model_timeout") from exc
            except (TransferError, DamagedStream) as exc:
                raise OpenAIError(502, f"the model's response broke: {exc}", code="stream_broken") from exc
            if payload:
                return payload

    def abort(self) -> None:
        """Close the connection: the rest is not needed."""
        self._exchange.abort()


class Upstream:
    """`timeout`: seconds without any data after which a request is given up."""

    def __init__(self, client: InferenceClient, deployments: Deployments, *, timeout: float) -> None:
        self._client = client
        self._deployments = deployments
        self._timeout = timeout

    async def send(self, deployment: ServedDeployment, request: HttpRequest) -> UpstreamResponse:
        """The response once its head has arrived. OpenAIError for every other outcome."""
        delays, renewed = list(_NOT_READY_DELAYS), False
        while True:
            exchange = await self._exchange(deployment, request)
            if exchange.status < 300:
                return UpstreamResponse(exchange)
            try:
                error = await _read_error(exchange, is_aws=deployment.signer is not None)
            except TransferError as exc:
                raise OpenAIError(502, f"the server's error could not be read: {exc}") from exc
            if error.code == "model_not_ready" and delays:
                await asyncio.sleep(delays.pop(0))
            elif error.code == "aws_expired" and deployment.signer is not None and not renewed:
                renewed = True
                await _renew(deployment)
            elif error.code == "aws_expired":
                raise OpenAIError(503, error.message, code="aws_credentials")
            else:
                raise error

    async def _exchange(self, deployment: ServedDeployment, request: HttpRequest) -> InferenceExchange:
        try:
            return await self._post(deployment, request)
        except ConnectFailed as exc:
            moved = await self._deployments.read_again(deployment)
            if moved.address != deployment.address:
                return await self._exchange(moved, request)
            hint = f"`lmi status {deployment.name}` shows the reason, `lmi up` starts it again"
            if deployment.signer is not None:
                hint = "check the network: lmi proxy connects to SageMaker directly, and ignores HTTPS_PROXY"
            raise OpenAIError(503, f"{deployment.name}: {exc}; {hint}", code="endpoint_unreachable") from exc
        except TimedOut as exc:
            raise OpenAIError(504, f"{deployment.name}: {exc}", code="model_timeout") from exc
        except TransferError as exc:
            raise OpenAIError(502, f"{deployment.name}: {exc}", code="connection_lost") from exc

    async def _post(self, deployment: ServedDeployment, request: HttpRequest) -> InferenceExchange:
        address = deployment.stream_address if request.stream else deployment.address
        headers = list(request.headers)
        if deployment.signer is not None:
            try:
                headers = await deployment.signer.headers(address, headers, request.body)
            except LmiError as error:
                raise of_lmi_error(error) from error
        return await self._client.post(address, headers, request.body, timeout=self._timeout)


async def _renew(deployment: ServedDeployment) -> None:
    assert deployment.signer is not None
    try:
        await deployment.signer.renew()
    except LmiError as error:
        raise of_lmi_error(error) from error


async def list_adapters(client: InferenceClient, address: HttpAddress) -> tuple[str, ...]:
    """The names of a server's LoRA adapters; none if it does not list them now."""
    try:
        exchange = await client.get(address, timeout=_LIST_TIMEOUT)
        value = parse_json(await exchange.read())
    except TransferError:
        return ()
    listed = value.get("adapters") if exchange.status == 200 and isinstance(value, dict) else None
    rows = listed if isinstance(listed, list) else []
    return tuple(str(row["name"]) for row in rows if isinstance(row, dict) and row.get("name"))


def _payload(message: StreamMessage) -> bytes:
    """OpenAIError for an exception in the stream."""
    headers = message.headers
    if headers.get(":message-type", "event") == "event":
        return message.payload if headers.get(":event-type") == "PayloadPart" else b""
    code = headers.get(":exception-type") or headers.get(":error-code") or "stream error"
    fields = parse_json(message.payload)
    text = _text(fields, "Message", "message") or headers.get(":error-message", "")
    reason = _text(fields, "ErrorCode") or code
    status = 504 if reason == "ModelInvocationTimeExceeded" else 502
    raise OpenAIError(status, f"the model's stream broke: {text or reason} ({reason})", code="stream_broken")


async def _read_error(exchange: InferenceExchange, *, is_aws: bool) -> OpenAIError:
    content = await exchange.read()
    retry_after = exchange.header("retry-after")
    if not is_aws:
        return server_error(exchange.status, content, retry_after=retry_after)
    fields = parse_json(content)
    code = exchange.header("x-amzn-errortype") or _text(fields, "__type", "code", "Code")
    code = code.partition(":")[0].rpartition("#")[2]
    message = _text(fields, "Message", "message") or content.decode("utf-8", "replace")[:2000]
    if code in _EXPIRED:
        hint = "log in again (`aws sso login`, or new keys)"
        return OpenAIError(503, f"AWS credentials: they have expired; {hint}", code="aws_expired")
    return aws_error(
        code or f"HTTP {exchange.status}",
        message,
        fields if isinstance(fields, dict) else {},
        status=exchange.status,
        retry_after=retry_after,
    )


def _text(fields: Any, *names: str) -> str:
    found = (fields.get(name) for name in names) if isinstance(fields, dict) else ()
    return next((str(value) for value in found if value), "")
