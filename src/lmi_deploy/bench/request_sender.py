"""Sends one request and keeps what came back, with the times at which it came."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from lmi_deploy.bench.response_reading import RawResponse, is_expired
from lmi_deploy.domain.inference_http import HttpRequest
from lmi_deploy.inference_client.client import HttpAddress, InferenceClient
from lmi_deploy.inference_client.connection import ConnectFailed, TimedOut, TransferError
from lmi_deploy.inference_client.signing import EndpointSigner
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint

_CLASSES: Final[dict[type[TransferError], str]] = {ConnectFailed: "connect", TimedOut: "timeout"}


@dataclass(slots=True)
class RequestSender:
    """Belongs to one event loop. `timeout`: seconds without any data. A failed request is not sent again: its failure
    is a result.
    """

    client: InferenceClient
    address: HttpAddress
    stream_address: HttpAddress
    signer: EndpointSigner | None
    timeout: float

    @classmethod
    def to(cls, endpoint: InferenceEndpoint, client: InferenceClient, *, timeout: float) -> RequestSender:
        return cls(
            client,
            HttpAddress.parse(endpoint.url),
            HttpAddress.parse(endpoint.stream_url),
            EndpointSigner(endpoint.signing) if endpoint.signing else None,
            timeout,
        )

    async def send(self, request: HttpRequest, scheduled: float) -> RawResponse:
        """Never raises for a failed request. AccessError if there are no credentials at all."""
        raw = RawResponse(scheduled=scheduled)
        await self._exchange(request, raw)
        if self.signer is not None and is_expired(raw):
            await self.signer.renew()
            raw = RawResponse(scheduled=scheduled)
            await self._exchange(request, raw)
        return raw

    async def _exchange(self, request: HttpRequest, raw: RawResponse) -> None:
        address = self.stream_address if request.stream else self.address
        headers = list(request.headers)
        if self.signer is not None:
            headers = await self.signer.headers(address, headers, request.body)
        raw.sent = time.perf_counter()
        try:
            exchange = await self.client.post(address, headers, request.body, timeout=self.timeout)
            raw.sent, raw.status, raw.headers = exchange.sent_at, exchange.status, exchange.headers
            raw.parts = exchange.parts
            await exchange.collect()
            raw.end = exchange.last_at
        except TransferError as failure:
            raw.end = time.perf_counter()
            raw.error, raw.detail = _CLASSES.get(type(failure), "connection_cut"), str(failure)
