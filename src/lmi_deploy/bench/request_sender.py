"""Sends requests and hands over what came back, with the times at which it came."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from lmi_deploy.bench.response_reading import RawResponse, is_expired
from lmi_deploy.domain.inference_http import HttpRequest
from lmi_deploy.errors import LmiError
from lmi_deploy.inference_client.client import HttpAddress, InferenceClient
from lmi_deploy.inference_client.connection import InferenceExchange
from lmi_deploy.inference_client.signing import EndpointSigner
from lmi_deploy.inference_client.transfer_errors import ConnectFailed, ConnectionCut, TimedOut, TransferError
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint

OnEnd = Callable[[RawResponse | LmiError], None]
_CLASSES: Final[dict[type[TransferError], str]] = {ConnectFailed: "connect", TimedOut: "timeout"}


class RequestSender:
    """Belongs to one event loop. `timeout`: seconds without any data. A failed request is not sent again: its failure
    is a result.
    """

    def __init__(self, endpoint: InferenceEndpoint, client: InferenceClient, *, timeout: float) -> None:
        self._client = client
        self._address = HttpAddress.parse(endpoint.url)
        self._stream_address = HttpAddress.parse(endpoint.stream_url)
        self._signer = EndpointSigner(endpoint.signing) if endpoint.signing else None
        self._timeout = timeout
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: list[tuple[HttpRequest, float, OnEnd, InferenceExchange]] = []
        self._is_cancelled = False

    def send(self, request: HttpRequest, scheduled: float, on_end: OnEnd) -> None:
        """`on_end` gets the response, also of a failed request; AccessError if there are no credentials at all.

        Only a request that opens a connection or reads credentials is a task: 250 tasks that wake up at once measure
        each other.
        """
        address, headers = self._address_of(request), self._headers_now(request)
        ended = partial(self._has_ended, request, scheduled, on_end)
        if headers is None or not self._client.start(
            address, headers, request.body, timeout=self._timeout, on_end=ended
        ):
            self._start_task(request, scheduled, on_end)

    @property
    def resent(self) -> int:
        """Requests that were sent again: the server had closed the connection, or closed it without an answer."""
        return self._client.resent

    def cancel(self) -> None:
        """No request ends any more."""
        self._is_cancelled = True
        for task in self._tasks:
            task.cancel()

    def _address_of(self, request: HttpRequest) -> HttpAddress:
        return self._stream_address if request.stream else self._address

    def _headers_now(self, request: HttpRequest) -> Sequence[tuple[str, str]] | None:
        if self._signer is None:
            return request.headers
        return self._signer.headers_now(self._address_of(request), request.headers, request.body)

    def _has_ended(
        self, request: HttpRequest, scheduled: float, on_end: OnEnd, exchange: InferenceExchange
    ) -> None:
        """All that has arrived gets its time first; then the next requests are sent."""
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._deliver)
        self._ended.append((request, scheduled, on_end, exchange))

    def _deliver(self) -> None:
        ended, self._ended = self._ended, []
        for request, scheduled, on_end, exchange in ended:
            if self._is_cancelled:
                return
            raw = _raw(exchange, scheduled)
            was_idle_too_long = isinstance(exchange.failure, ConnectionCut) and exchange.failure.unanswered
            self._client.resent += was_idle_too_long
            if was_idle_too_long or (self._signer is not None and is_expired(raw)):
                self._start_task(request, scheduled, on_end, renew=not was_idle_too_long)
            else:
                on_end(raw)

    def _start_task(
        self, request: HttpRequest, scheduled: float, on_end: OnEnd, *, renew: bool = False
    ) -> None:
        task = asyncio.create_task(self._send(request, scheduled, on_end, renew=renew))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, request: HttpRequest, scheduled: float, on_end: OnEnd, *, renew: bool) -> None:
        try:
            if renew and self._signer is not None:
                await self._signer.renew()
            raw = await self._exchange(request, scheduled)
            if self._signer is not None and is_expired(raw) and not renew:
                await self._signer.renew()
                raw = await self._exchange(request, scheduled)
        except LmiError as error:
            on_end(error)
        else:
            on_end(raw)

    async def _exchange(self, request: HttpRequest, scheduled: float) -> RawResponse:
        address, headers = self._address_of(request), request.headers
        if self._signer is not None:
            headers = tuple(await self._signer.headers(address, headers, request.body))
        sent = time.perf_counter()
        try:
            exchange = await self._client.post(address, headers, request.body, timeout=self._timeout)
        except TransferError as failure:
            raw = RawResponse(scheduled=scheduled, sent=sent)
            _fail(raw, failure)
            return raw
        with contextlib.suppress(TransferError):  # the exchange has it
            await exchange.collect()
        return _raw(exchange, scheduled)


def _raw(exchange: InferenceExchange, scheduled: float) -> RawResponse:
    raw = RawResponse(
        scheduled=scheduled,
        sent=exchange.sent_at,
        end=exchange.last_at,
        status=exchange.status,
        headers=exchange.raw_headers,
        parts=exchange.parts,
    )
    if exchange.failure is not None:
        _fail(raw, exchange.failure)
    return raw


def _fail(raw: RawResponse, failure: TransferError) -> None:
    raw.end = time.perf_counter()
    raw.error, raw.detail = _CLASSES.get(type(failure), "connection_cut"), str(failure)
